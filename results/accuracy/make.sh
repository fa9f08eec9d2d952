#!/usr/bin/env bash
# The table of the README, from the zoos of results/zoo: results/accuracy/make.sh CIFAR_FS WORK
source "$(dirname "$0")/../setup.sh"

dfml learn zoo100 --preset thorough --seed 0 --out chorus-5000-0
measure test 600 chorus-5000-0 chorus-5000-0 --head prototype answers
measure test 600 chorus-5000-0 chorus-5000-0-centred --head prototype --centre
# the product: statistics frozen at adaptation; the blend was chosen on validation classes, in results/inductive
measure test 600 chorus-5000-0 chorus-5000-0-product --head prototype answers --inductive

dfml learn zoo100 --preset strong --seed 0 --out strong-0
measure test 600 strong-0 strong-0-product --head prototype answers --inductive

for seed in 0 1 2; do
    dfml learn zoo10 --method random --seed $seed --out random-$seed
    measure test 600 random-$seed random-$seed --head prototype finetune

    dfml learn zoo10 --method bidf-mkd --seed $seed --set schedule.visits=10 --set schedule.visits_until=0.05 \
        --set schedule.iterations=300 --out bidf-mkd-10-$seed
    measure test 600 bidf-mkd-10-$seed bidf-mkd-10-$seed --head finetune prototype
done

for seed in 0 1 2; do
    dfml learn zoo100 --budget-per-api 500 --seed $seed --out chorus-500-$seed
    measure test 600 chorus-500-$seed chorus-500-$seed --head prototype
    measure test 600 chorus-500-$seed chorus-500-$seed-product --head prototype answers --inductive
done

# birds
dfml learn zoo100-cub --seed 0 --out cub-100-0
dfml evaluate cub-100-0 --dataset cub --data "$(dirname "$data")/cub" --part test --shot 1 5 --tasks 600 \
    --head prototype answers --inductive --json "$here/cub-100-0-product.json"

dfml learn zoo10 --budget-per-api 100 --seed 0 --out chorus-100-0
measure test 600 chorus-100-0 chorus-100-0 --head prototype

printf '[%s,\n%s,\n%s]\n' "$(dfml ledger bidf-mkd-10-0 --json)" "$(dfml ledger bidf-mkd-10-1 --json)" \
    "$(dfml ledger bidf-mkd-10-2 --json)" > "$here/bidf-mkd-10-queries.json"
