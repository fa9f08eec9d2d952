#!/usr/bin/env bash
# How many recovered images reach their class, from the zoo of results/zoo: results/reach/make.sh CIFAR_FS WORK
source "$(dirname "$0")/../setup.sh"

(cd "$root" && python -m benchmarks.reach "$work/zoo10" --apis 6 --out "$here/reach.json")
