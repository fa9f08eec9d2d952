#!/usr/bin/env bash
# What a thousand unlabelled pictures of one's own are worth: EfficientNet-Lite0 is asked about pictures of the train classes,
# tasks are of the validation classes: results/own-pictures/make.sh CIFAR_FS WORK, after results/real/make.sh
source "$(dirname "$0")/../setup.sh"

pictures() { # pictures EACH FOLDER: the first EACH of every train class, without their labels
    mkdir -p "$2"
    while read -r class; do
        for file in $(find "$data/data/$class" -type f | sort | head -n "$1"); do
            ln -sf "$file" "$2/$class-$(basename "$file")"
        done
    done < "$data/splits/bertinetto/train.txt"
}

learn() { # learn NAME OPTION...
    dfml learn real-apis/lite0.toml --seed 0 --set distil.steps=2500 --out "own-$1" "${@:2}"
    measure val 300 "own-$1" "$1" --head prototype answers --inductive
}

learn none
for each in 16 32 64; do
    pictures $each own-pictures-$each
    learn $((64 * each)) --images own-pictures-$each
done
learn strong-4096 --images own-pictures-64 --preset strong --set queries=5096
