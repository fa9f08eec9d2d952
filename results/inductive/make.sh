#!/usr/bin/env bash
# Which statistics an adapted classifier keeps, on validation classes, from a run of results/accuracy:
# results/inductive/make.sh CIFAR_FS WORK
source "$(dirname "$0")/../setup.sh"

for weight in 0.0 0.2 0.5 1.0; do
    measure val 150 chorus-5000-0 val-$weight --head prototype --inductive --support-weight $weight
done
measure val 150 chorus-5000-0 transductive-val --head prototype
