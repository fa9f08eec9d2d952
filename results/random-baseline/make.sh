#!/usr/bin/env bash
# Why an untrained network is above chance, on validation classes: results/random-baseline/make.sh CIFAR_FS WORK
source "$(dirname "$0")/../setup.sh"

(cd "$root" && python -m benchmarks.random_baseline "$data" --tasks 60 --out "$here/random-baseline.json")
