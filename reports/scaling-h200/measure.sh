#!/bin/sh
# Norms in FP16 against FP32, in CUDA graphs.
#     sh reports/scaling-h200/measure.sh OUT [OPTIONS OF SWEEP]       # 102 s on an H100, without loading
set -eu
out=$1
shift
"${PYTHON:-python3}" -m energyscope sweep "${MODEL:-llama-3.2-1b}" --weights random --precision fp16,fp32 \
    --execution cuda-graph --sequence-length "${LENGTHS:-128}" --root "$out" --name precision-graph -q "$@"
