#!/usr/bin/env bash
# The APIs that all the rest asks: results/zoo/make.sh CIFAR_FS WORK
source "$(dirname "$0")/../setup.sh"

dfml zoo build --dataset cifar-fs --data "$data" --apis 100 --out zoo100
dfml zoo show zoo100 --json > "$here/cifar-fs-100.json"
dfml zoo build --dataset cifar-fs --data "$data" --apis 10 --out zoo10   # the first ten of the hundred, bit for bit
# folders beside CIFAR_FS
dfml zoo build --dataset cub --data "$(dirname "$data")/cub" --apis 100 --out zoo100-cub
dfml zoo show zoo100-cub --json > "$here/cub-100.json"
dfml zoo build --dataset mini-imagenet --data "$(dirname "$data")/mini-imagenet" --apis 100 --out zoo100-mini
dfml zoo show zoo100-mini --json > "$here/mini-100.json"
