#!/bin/sh
# Energy and impact of the bundled models, for the study's figures 8 and 12 (every energy metric against every impact):
#     sh reports/published-study/measure.sh OUT [OPTIONS OF RUN]      # about 230 s on one H200
# Granularity, methods of impact and metrics are the defaults. In CUDA graphs, since in eager execution the host's pace
# leaves most components of models this small too noisy; three windows of each, which suffice there.
set -eu
out=$1
shift
for model in tiny-distilbert tiny-gpt2; do
    "${PYTHON:-python3}" -m energyscope run "$model" --stages profile,ablate,correlate,report --execution cuda-graph \
        --passes 3 --component-budget 1.6 --max-examples 200 --root "$out" --name "$model-graph-h200" -q "$@"
done
