#!/usr/bin/env bash
# Worse teachers, 1,000 queries an API, from the zoo of results/zoo: results/conditions/make.sh CIFAR_FS WORK
source "$(dirname "$0")/../setup.sh"

for seed in 0 1 2; do
    for condition in exact labels-8bit ten ten+ten forests; do
        (cd "$root" && python -m benchmarks.chorus_conditions "$work/zoo100" "$work/conditions" $condition --seed $seed)
        measure test 600 conditions/$condition-$seed $condition-$seed --head prototype
    done
done
