#!/usr/bin/env bash
# BiDf-MKD with the paper's hundred APIs, each visited once: with filters of the usual length, then by the recipe of scale
# workstation, beside replay alone and the untrained network that both begin with:
# results/headline/make.sh CIFAR_FS WORK
source "$(dirname "$0")/../setup.sh"

dfml learn zoo100 --method bidf-mkd --seed 0 --set net.size=32 --set recovery.images_per_class=10 \
    --set recovery.filters=16 --set recovery.lr=0.003 --set recovery.steps=16 --set schedule.visits=100 \
    --set schedule.visits_until=0.25 --set schedule.iterations=800 --set replay.query=10 --set replay.batch=2 \
    --out usual-100-0
measure test 600 usual-100-0 usual-100-0 --head finetune prototype
printf '[%s]\n' "$(dfml ledger usual-100-0 --json)" > "$here/usual-queries.json"

recipe=(--method bidf-mkd --set net.size=32 --set net.filter_length=0.15 --set recovery.images_per_class=10
    --set recovery.filters=16 --set recovery.lr=0.003 --set recovery.steps=16 --set schedule.visits=100
    --set schedule.visits_until=0.25 --set schedule.iterations=900 --set distil.outer_lr=0.0001
    --set replay.outer_lr=0.0001 --set replay.query=10 --set replay.batch=2 --set memory.merge_by_name=true)
for seed in 0 1 2; do
    dfml learn zoo100 "${recipe[@]}" --seed $seed --out bidf-mkd-100-$seed
    measure test 600 bidf-mkd-100-$seed bidf-mkd-100-$seed --head finetune prototype
    dfml learn zoo100 "${recipe[@]}" --set components.distil=false --set components.boundary=false --seed $seed \
        --out vanilla-100-$seed
    measure test 600 vanilla-100-$seed vanilla-100-$seed --head finetune prototype
    dfml learn zoo100 --method random --seed $seed --set net.filter_length=0.15 --out random-short-$seed
    measure test 600 random-short-$seed random-short-$seed --head finetune
done

ledgers() { printf '[%s,\n%s,\n%s]\n' "$(dfml ledger "$1-0" --json)" "$(dfml ledger "$1-1" --json)" "$(dfml ledger "$1-2" --json)"; }
ledgers bidf-mkd-100 > "$here/queries.json"
ledgers vanilla-100 > "$here/vanilla-queries.json"
