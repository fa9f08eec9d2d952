# Sourced by the make.sh of every folder, which is called as results/NAME/make.sh CIFAR_FS WORK.
# CIFAR_FS is the public download (data/ and splits/), WORK a folder for the zoos and the runs, shared by all of them.
# shellcheck shell=bash
set -euo pipefail
data=$(realpath "$1") work=$(realpath -m "$2") here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
mkdir -p "$work"
cd "$work"

# Test classes are looked at by these scripts and nowhere else.
measure() { # measure PART TASKS RUN NAME OPTION... : 1 and 5 shots, the result in NAME.json
    local part=$1 tasks=$2 run=$3 name=$4
    shift 4
    dfml evaluate "$run" --dataset cifar-fs --data "$data" --part "$part" --shot 1 5 --tasks "$tasks" "$@" \
        --json "$here/$name.json"
}
