#!/usr/bin/env bash
# What unlabelled pictures of one's own are worth: EfficientNet-Lite0 is asked about pictures of the train classes, tasks are of
# the validation classes, after results/real/make.sh: results/own-pictures/make.sh CIFAR_FS WORK
source "$(dirname "$0")/../setup.sh"

pictures() { # pictures EACH: the first EACH of every train class, without their labels, in own-pictures-EACH/
    python -c '
import sys
from pathlib import Path
data, each = Path(sys.argv[1]), int(sys.argv[2])
folder = Path(f"own-pictures-{each}")
folder.mkdir(exist_ok=True)
for name in (data / "splits" / "bertinetto" / "train.txt").read_text().split():
    for file in sorted((data / "data" / name).iterdir())[:each]:
        link = folder / f"{name}-{file.name}"
        link.is_symlink() or link.symlink_to(file)
' "$data" "$1"
}

learn() { # learn NAME OPTION... : a student of 32 pixels, as these photographs are
    dfml learn real-apis/lite0.toml --seed 0 --set net.size=32 --out "own-$1" "${@:2}"
    measure val 300 "own-$1" "$1" --head prototype answers --inductive
}

for each in 16 64; do
    pictures $each
    learn $((64 * each)) --images own-pictures-$each
done
# as was the default then
learn strong-4096 --images own-pictures-64 --preset strong --set net.width=32 --set queries=5096 --set distil.steps=2500 --set pictures=painted \
    --set distil.optimiser=adam
