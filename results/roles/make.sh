#!/usr/bin/env bash
# What replay draws its tasks from, on validation classes: results/roles/make.sh CIFAR_FS WORK
source "$(dirname "$0")/../setup.sh"

for memory in pooled roles; do
    [ $memory = roles ] && roles=true || roles=false
    dfml learn zoo10 --method bidf-mkd --seed 0 --set memory.roles=$roles --set recovery.images_per_class=10 \
        --set recovery.filters=16 --set recovery.lr=0.003 --set recovery.steps=16 --set schedule.visits=10 \
        --set schedule.visits_until=0.1 --set schedule.iterations=120 --set replay.query=5 --set replay.batch=2 \
        --out memory-$memory-0
    measure val 150 memory-$memory-0 $memory-0 --head finetune
done

dfml learn zoo10 --method bidf-mkd --seed 0 --set recovery.strategy=pool --set recovery.pool=1000 \
    --set recovery.images_per_class=10 --set schedule.visits=10 --set schedule.visits_until=0.1 \
    --set schedule.iterations=120 --set replay.query=5 --set replay.batch=2 --out memory-drawn-0
measure val 150 memory-drawn-0 drawn-0 --head finetune
