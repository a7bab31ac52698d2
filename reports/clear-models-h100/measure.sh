#!/bin/sh
# Measure the models of this page, one after another: sh measure.sh FOLDER [MODEL ...]   (about 5 minutes a model)
# `python tools/studies/clear_models.py FOLDER` makes measured.csv of it.
set -e
folder=$1
shift
models=${*:-albert-base-v2 albert-large-v2 bert-base bert-large roberta-base roberta-large distilbert distilroberta-base \
    qwen2.5-3b llama-3.2-3b gemma-3-4b phi-3-mini t5-base bart-base gpt-oss-20b}
for model in $models; do
    sweep="energyscope sweep $model --weights random --layers kinds --root $folder"
    if [ "$model" = gpt-oss-20b ]; then  # its FP16 cannot be captured
        $sweep --name "$model-graph-bf16" --precision bf16 --execution cuda-graph --sequence-length 128,8,32
    else
        $sweep --name "$model-graph-fp16" --precision fp16 --execution cuda-graph --sequence-length 8,32,64,96,128
    fi
    $sweep --name "$model-graph-fp32" --precision fp32 --execution cuda-graph --sequence-length 128 || echo "$model: no FP32"
    $sweep --name "$model-eager-fp16" --precision fp16 --execution eager --sequence-length 128
done
