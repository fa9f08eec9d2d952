#!/usr/bin/env bash
# BiDf-MKD with the paper's hundred APIs, each visited once, by the recovery of scale workstation:
# results/headline/make.sh CIFAR_FS WORK
source "$(dirname "$0")/../setup.sh"

for seed in 0; do
    dfml learn zoo100 --method bidf-mkd --seed $seed --set net.size=32 --set recovery.images_per_class=10 \
        --set recovery.filters=16 --set recovery.lr=0.003 --set recovery.steps=16 --set schedule.visits=100 \
        --set schedule.visits_until=0.25 --set schedule.iterations=800 --set replay.query=10 --set replay.batch=2 \
        --out bidf-mkd-100-$seed
    measure test 600 bidf-mkd-100-$seed bidf-mkd-100-$seed --head finetune prototype
done

printf '[%s]\n' "$(dfml ledger bidf-mkd-100-0 --json)" > "$here/queries.json"
