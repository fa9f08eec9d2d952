#!/usr/bin/env bash
# Public networks that nobody here trained, from the folder DFML_TEST_MODELS (tests/real/networks.py says which):
# results/real/make.sh CIFAR_FS WORK
source "$(dirname "$0")/../setup.sh"

python "$root/tests/real/networks.py" "${DFML_TEST_MODELS:-models}" real-apis
# The student learns from the four of ImageNet; the tables have birds and CIFAR-10 beside them.
python -c '
import tomllib, tomli_w
from pathlib import Path
apis = tomllib.loads(Path("real-apis/apis.toml").read_text())["apis"]
apis = {name: entry for name, entry in apis.items() if name not in ("birds", "cifar10")}
Path("real-apis/imagenet.toml").write_text(tomli_w.dumps({"apis": apis}))
'
# What is asked live was measured with a student that keeps all classes apart, and learned as was the default then.
dfml learn real-apis/imagenet.toml --preset strong --set net.width=32 --budget-per-api 1000 --set net.size=32 --set spread=1 \
    --set distil.classes=apart --set pictures=painted --set distil.optimiser=adam --set distil.steps=4000 --out real-strong
for part in val test; do
    dfml bench real --apis real-apis/apis.toml --dataset cifar-fs --data "$data" --part $part --run real-strong \
        --shot 1 5 --tasks 300 --out "$here"
done
# Birds, for a network that knows the species and for one that knows few.
dfml bench real --apis real-apis/apis.toml --only birds --only lite0 --dataset cub --data "$(dirname "$data")/cub" --part test \
    --shot 1 5 --tasks 100 --rows api apis --out "$here"
# The four of ImageNet without the others; and what Lite0's probabilities are worth. What the tables asked is not asked again.
mkdir -p real-strong/asked
cp -r "$here/ledger" real-strong/asked/ 2> /dev/null || true
python -c '
import tomllib, tomli_w
from pathlib import Path
apis = tomllib.loads(Path("real-apis/apis.toml").read_text())["apis"]
Path("real-apis/lite0.toml").write_text(tomli_w.dumps({"apis": {"lite0": apis["lite0"]}}))
'
measure test 300 real-strong four-test --ask real-apis/imagenet.toml --ask-share .1 .5 1
measure test 300 real-strong six-test --ask real-apis/apis.toml --ask-share .1 .5 1
measure val 150 real-strong lite0-val --ask real-apis/lite0.toml --ask-share 0 .1 .3 .5 1
# Classes of one name as one, and every picture shown to one network: what that student knows by itself.
dfml learn real-apis/imagenet.toml --preset strong --set net.width=32 --budget-per-api 1000 --set net.size=32 --set spread=4 \
    --set distil.steps=4000 --out real-named
measure test 300 real-named named-test --head prototype answers --inductive
# Without more words: two networks hear of each picture, and the student sees 48 pixels.
for seed in 0 1 2; do
    dfml learn real-apis/imagenet.toml --seed $seed --out real-usual-$seed
    for dataset in cifar-fs cub mini-imagenet; do
        dfml evaluate real-usual-$seed --dataset $dataset --data "$(dirname "$data")/$dataset" --part test --shot 1 5 --tasks 600 \
            --head prototype answers --inductive --json "$here/usual-$dataset-$seed-test.json"
    done
done
