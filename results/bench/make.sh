#!/usr/bin/env bash
# The paper's tables and figures at laptop scale; cells that two of them share are run once:
# results/bench/make.sh CIFAR_FS WORK
source "$(dirname "$0")/../setup.sh"

bench() { dfml bench "$1" --scale laptop --data "${2:-$data}" --zoos . --work bench-work --out "$here"; }
for table in tab:ss tab:ablation tab:zofo tab:numberapi fig:apinum queries tab:sh privacy fig:vix fig:apiacc quality \
    fig:numshots tab:sentivity tab:numberquery fig:querynum tab:dfmeta10way; do
    bench $table
done
bench tab:mh "$(dirname "$data")" # a folder with cifar-fs/, mini-imagenet/ and cub/
dfml bench show "$here" --out bench-shown
cp bench-shown/laptop-cifar-fs-queries.png "$root/docs/bench-queries.png"
