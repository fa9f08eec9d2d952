#!/usr/bin/env bash
# The benchmarks, also `make bench`, which reads no data: results/speed/make.sh CIFAR_FS WORK
source "$(dirname "$0")/../setup.sh"

cd "$root"
python -m benchmarks --out "$here/benchmarks.json"
python -m benchmarks.growth --plot docs/growth.svg
