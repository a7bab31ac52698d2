#!/bin/sh
# Norms in FP16 against FP32 with the present method: CUDA graphs without the masks that eager execution does not use.
#     sh reports/scaling-h200/measure.sh OUT [OPTIONS OF SWEEP]       # about 80 s on one H200, 36 s for each cell
# LENGTHS=128,512 takes 150 s.
set -eu
out=$1
shift
"${PYTHON:-python3}" -m energyscope sweep "${MODEL:-llama-3.2-1b}" --weights random --precision fp16,fp32 \
    --execution cuda-graph --sequence-length "${LENGTHS:-128}" --root "$out" --name precision-graph -q "$@"
