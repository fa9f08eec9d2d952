#!/usr/bin/env bash
# Every number of the README and the docs, made anew: results/make.sh CIFAR_FS WORK
# CIFAR_FS is the public download (data/ and splits/), WORK a folder for the zoo and the runs. Hours on two cores.
set -euo pipefail
data=$1 work=$2 here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$work"
cd "$work"

dfml zoo build --dataset cifar-fs --data "$data" --apis 100 --out zoo100
dfml zoo show zoo100 --json > "$here/zoo-cifar-fs-100.json"
dfml zoo build --dataset cifar-fs --data "$data" --apis 10 --out zoo10   # the first ten of the hundred, bit for bit

# test classes are looked at here and nowhere else
test() { # test RUN HEAD... : 600 tasks, 1 and 5 shots
    local run=$1
    shift
    dfml evaluate "$run" --dataset cifar-fs --data "$data" --part test --shot 1 5 --tasks 600 --head "$@" \
        --json "$here/$run.json"
    dfml evaluate "$run" --dataset cifar-fs --data "$data" --part test --shot 1 5 --tasks 600 --head prototype --centre \
        --json "$here/$run-centred.json"
}

for seed in 0 1 2; do
    dfml learn zoo100 --preset thorough --seed $seed --out chorus-5000-$seed
    test chorus-5000-$seed prototype answers
    dfml learn zoo100 --budget-per-api 500 --seed $seed --out chorus-500-$seed
    test chorus-500-$seed prototype
    dfml learn zoo10 --method random --seed $seed --out random-$seed
    test random-$seed prototype finetune
    dfml learn zoo10 --method bidf-mkd --seed $seed --set schedule.visits=10 --set schedule.visits_until=0.05 \
        --set schedule.iterations=300 --out bidf-mkd-10-$seed
    test bidf-mkd-10-$seed finetune prototype
done

printf '[%s,\n%s,\n%s]\n' "$(dfml ledger bidf-mkd-10-0 --json)" "$(dfml ledger bidf-mkd-10-1 --json)" \
    "$(dfml ledger bidf-mkd-10-2 --json)" > "$here/bidf-mkd-10-queries.json"

# the product: statistics frozen at adaptation; the blend was chosen on validation classes
for weight in 0.0 0.2 0.5 1.0; do
    dfml evaluate chorus-5000-0 --dataset cifar-fs --data "$data" --part val --tasks 150 --head prototype --inductive \
        --support-weight $weight --json "$here/inductive-val-$weight.json"
done
dfml evaluate chorus-5000-0 --dataset cifar-fs --data "$data" --part val --tasks 150 --head prototype \
    --json "$here/transductive-val.json"
for seed in 0 1 2; do
    dfml evaluate chorus-5000-$seed --dataset cifar-fs --data "$data" --part test --tasks 600 --head prototype answers \
        --inductive --json "$here/chorus-5000-$seed-product.json"
done

# what endpoints do to a query, through a real `dfml serve`: 10 APIs, 1,000 queries each
for seed in 0 1 2; do
    (cd "$here/.." && python -m benchmarks.remote_conditions "$work/zoo10" "$work/remote" --seed $seed)
    for condition in exact decimals top-3 label; do
        dfml evaluate remote/$condition-$seed --dataset cifar-fs --data "$data" --part test --shot 1 5 --tasks 600 \
            --head prototype --json "$here/remote-$condition-$seed.json"
    done
done

# worse teachers, 1,000 queries an API
for seed in 0 1 2; do
    for condition in exact labels-8bit ten ten+ten forests; do
        (cd "$here/.." && python -m benchmarks.chorus_conditions "$work/zoo100" "$work/conditions" $condition --seed $seed)
        dfml evaluate conditions/$condition-$seed --dataset cifar-fs --data "$data" --part test --shot 1 5 --tasks 600 \
            --head prototype --json "$here/conditions-$condition-$seed.json"
    done
done

(cd "$here/.." && python -m benchmarks.reach "$work/zoo10" --apis 6 --out "$here/reach.json")
(cd "$here/.." && python -m benchmarks --out "$here/benchmarks.json")

# the paper's tables and figures at laptop scale; cells that two of them share are run once
cd "$work"
bench() { dfml bench "$1" --scale laptop --data "${2:-$data}" --zoos . --work bench-work --out "$here"; }
for table in tab:ss tab:ablation tab:zofo tab:numberapi fig:apinum queries tab:sh privacy fig:vix fig:apiacc quality \
    fig:numshots tab:sentivity tab:numberquery fig:querynum tab:dfmeta10way; do
    bench $table
done
bench tab:mh "$(dirname "$data")" # a folder with cifar-fs/, mini-imagenet/ and cub/
dfml bench show "$here" --out "$here/shown"
cp "$here/shown/laptop-cifar-fs-queries.png" "$here/../docs/bench-queries.png"
(cd "$here/.." && python -m benchmarks.growth --plot docs/growth.svg && python results/table.py --write)
(cd "$here/.." && python -m benchmarks.random_baseline "$data" --tasks 100 --out "$here/random-baseline.json")
