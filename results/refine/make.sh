#!/usr/bin/env bash
# How much less a live classifier asks after it has learned from what it asked, on validation classes:
# results/refine/make.sh CIFAR_FS WORK, after results/real/make.sh
source "$(dirname "$0")/../setup.sh"

(cd "$root" && python -m benchmarks.refining "$work/real-strong" "$work/real-apis/lite0.toml" "$data" --tasks 2 \
    --out "$here/refine.json")
