#!/usr/bin/env bash
# The table of the README, from the zoos of results/zoo: results/accuracy/make.sh CIFAR_FS WORK
source "$(dirname "$0")/../setup.sh"

# The paper's network, to be compared with it. Where distil.steps is set, that was the default when these were made.
conv4=(--set net.arch=conv4 --set net.width=32)

for seed in 0 1 2; do # the product: statistics frozen at adaptation; the blend was chosen on validation classes, in results/inductive
    dfml learn zoo100 --preset thorough "${conv4[@]}" --seed $seed --out chorus-5000-$seed
    measure test 600 chorus-5000-$seed chorus-5000-$seed-product --head prototype answers --inductive
done
measure test 600 chorus-5000-0 chorus-5000-0 --head prototype answers
measure test 600 chorus-5000-0 chorus-5000-0-centred --head prototype --centre

for seed in 0 1 2; do
    dfml learn zoo100 --preset strong --seed $seed --out strong-$seed
    measure test 600 strong-$seed strong-$seed-product --head prototype answers --inductive
done

for seed in 0 1 2; do
    dfml learn zoo10 --method random --seed $seed --out random-$seed
    measure test 600 random-$seed random-$seed --head prototype finetune

    dfml learn zoo10 --method bidf-mkd --seed $seed --set schedule.visits=10 --set schedule.visits_until=0.05 \
        --set schedule.iterations=300 --out bidf-mkd-10-$seed
    measure test 600 bidf-mkd-10-$seed bidf-mkd-10-$seed --head finetune prototype
done

for seed in 0 1 2; do
    dfml learn zoo100 --budget-per-api 500 "${conv4[@]}" --seed $seed --out chorus-500-$seed
    measure test 600 chorus-500-$seed chorus-500-$seed --head prototype
    measure test 600 chorus-500-$seed chorus-500-$seed-product --head prototype answers --inductive
done

# without more words: a student that grows from block to block
dfml learn zoo100 --budget-per-api 500 --seed 0 --out usual-500-0
measure test 600 usual-500-0 usual-500-0-product --head prototype answers --inductive

# birds, and things
other() { # other DATASET ZOO NAME OPTION...
    local dataset=$1 zoo=$2 name=$3
    shift 3
    dfml learn "$zoo" "$@" --seed 0 --out "$name"
    dfml evaluate "$name" --dataset "$dataset" --data "$(dirname "$data")/$dataset" --part test --shot 1 5 --tasks 600 \
        --head prototype answers --inductive --json "$here/$name-product.json"
}
other cub zoo100-cub cub-100-0 "${conv4[@]}"
other mini-imagenet zoo100-mini mini-100-0 "${conv4[@]}"
other mini-imagenet zoo100-mini mini-5000-0 "${conv4[@]}" --set distil.steps=8944 --budget-per-api 5000
other mini-imagenet zoo100-mini mini-strong-0 --preset strong --set net.width=32

dfml learn zoo10 --budget-per-api 100 "${conv4[@]}" --set distil.steps=1265 --seed 0 --out chorus-100-0
measure test 600 chorus-100-0 chorus-100-0 --head prototype

printf '[%s,\n%s,\n%s]\n' "$(dfml ledger bidf-mkd-10-0 --json)" "$(dfml ledger bidf-mkd-10-1 --json)" \
    "$(dfml ledger bidf-mkd-10-2 --json)" > "$here/bidf-mkd-10-queries.json"
