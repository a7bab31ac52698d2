#!/bin/sh
# Experiment (c) at CLEAR's short lengths, in CUDA graphs on one board:
#     sh reports/clear-study-h200/measure.sh OUT [OPTIONS OF SWEEP]   # about 105 s on one H200, 31 s for each length
# LENGTHS=8,16,32,64,128 takes 170 s.
set -eu
out=$1
shift
"${PYTHON:-python3}" -m energyscope sweep "${MODEL:-qwen2.5-3b}" --weights random --precision bf16 --execution cuda-graph \
    --sequence-length "${LENGTHS:-8,32,128}" --root "$out" --name qwen-graph-8-128 -q "$@"
