#!/bin/sh
# CLEAR's experiments at short lengths, in CUDA graphs on one board:
#     sh reports/clear-study-h200/measure.sh OUT [OPTIONS OF SWEEP]       # (c): 105 to 170 s on one H200
#     EXPERIMENT=b sh reports/clear-study-h200/measure.sh OUT             # (b): about 40 s
# LENGTHS=8,16,32,64,128 measures more. A sweep that was cut off goes on: energyscope sweep --resume OUT/qwen-graph-8-128
set -eu
out=$1
shift
lengths=${LENGTHS:-8,32,128}
if [ "${EXPERIMENT:-c}" = b ]; then
    components=$(echo "$lengths" | tr , '\n' | sed 's/.*/bert-base:&:attention:cuda-graph/' | paste -s -d , -)
    "${PYTHON:-python3}" tests/bench/methods.py --out "$out/methods-8-128" --methods sensitivity --full 9 \
        --components "$components" "$@"
else
    "${PYTHON:-python3}" -m energyscope sweep "${MODEL:-qwen2.5-3b}" --weights random --precision bf16 \
        --execution cuda-graph --sequence-length "$lengths" --root "$out" --name qwen-graph-8-128 -q "$@"
fi
