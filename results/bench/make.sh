#!/usr/bin/env bash
# The paper's tables and figures at laptop scale, one seed; cells that two of them share are run once. Of tab:zofo, tab:sh,
# tab:mh, queries and relatives not all rows are in yet:
# results/bench/make.sh CIFAR_FS WORK
source "$(dirname "$0")/../setup.sh"

bench() { dfml bench "$@" --scale laptop --zoos . --work bench-work --out "$here"; }
for table in tab:ss tab:ablation tab:zofo tab:sentivity tab:sh queries; do
    bench $table --data "$data" --seeds 1
done
bench fig:apiacc --data "$data"
all=$(dirname "$data") # a folder with cifar-fs/, mini-imagenet/ and cub/
bench tab:mh --data "$all" --seeds 1
bench fig:apiacc_all --data "$all"
bench relatives --data "$data" --seeds 1
