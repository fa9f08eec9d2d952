#!/usr/bin/env bash
# 1,000 kill -9 of processes that pay through a ledger, 100 of runs over HTTP, and 10,000 hostile bodies for each parser of
# responses. A script ends with an error where an answer was lost, paid for twice or misread:
# results/robustness/make.sh CIFAR_FS WORK
source "$(dirname "$0")/../setup.sh"

rm -rf kills remote-kills
python "$root/tests/apis/killing.py" kills 1000 > "$here/kills.json"
python "$root/tests/serving/killing_remote.py" remote-kills 100 > "$here/remote-kills.json"
python "$root/tests/apis/hostile_bodies.py" 10000 > "$here/hostile-bodies.json"
