#!/usr/bin/env bash
# Every number of the README and the docs, made anew: results/make.sh CIFAR_FS WORK
# CIFAR_FS is the public download (data/ and splits/), WORK a folder for the zoos and the runs. Hours on two cores.
# Each folder has its own commands, to be called alike; those below need what those above left in WORK.
set -euo pipefail
data=$(realpath "$1") work=$(realpath -m "$2")
cd "$(dirname "$0")/.."
for name in zoo accuracy headline roles inductive remote conditions reach speed bench random-baseline real own-pictures refine robustness; do
    "results/$name/make.sh" "$data" "$work"
done
python results/table.py --write
