#!/usr/bin/env bash
# The paper's tables and figures at laptop scale, one seed, of tab:ablation three; cells that two of them share are run once.
# Of tab:ss with a hundred APIs of MiniImageNet, only rows that learn from none:
# results/bench/make.sh CIFAR_FS WORK
source "$(dirname "$0")/../setup.sh"

bench() { dfml bench "$@" --scale laptop --zoos . --work bench-work --out "$here"; }
bench tab:ablation --data "$data" --seeds 3
for table in tab:ss tab:zofo tab:sentivity tab:numberapi fig:apinum tab:numberquery fig:querynum tab:sh queries \
    tab:dfmeta10way fig:numshots quality privacy fig:vix; do
    bench $table --data "$data" --seeds 1
done
bench fig:apiacc --data "$data"
all=$(dirname "$data") # a folder with cifar-fs/, mini-imagenet/ and cub/
for dataset in mini-imagenet cub; do
    bench tab:ss --dataset $dataset --data "$all/$dataset" --seeds 1
done
bench tab:mh --data "$all" --seeds 1
bench fig:apiacc_all --data "$all"
bench relatives --data "$data" --seeds 1
dfml bench tab:ss --scale workstation --data "$data" --seeds 1 --zoos . --work bench-work --out "$here"
dfml bench tab:ss --scale workstation --dataset mini-imagenet --data "$all/mini-imagenet" --seeds 1 --rows random api-features \
    --zoos . --work bench-work --out "$here"
rm -rf "$here/images" # of fig:vix and privacy: they show real photographs
