#!/usr/bin/env bash
# What endpoints do to a query, through a real `dfml serve`, 10 APIs of results/zoo, 1,000 queries each:
# results/remote/make.sh CIFAR_FS WORK
source "$(dirname "$0")/../setup.sh"

(cd "$root" && python -m benchmarks.remote_conditions "$work/zoo10" "$work/remote" --seed 0)
for condition in exact decimals top-3 label; do
    measure test 600 remote/$condition-0 $condition-0 --head prototype
done
