"""On two real GPUs: torchrun splits a model over them, and each one's joules are read and summed."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys

import pytest
import torch
from tiny_models import save_model

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="a model split over two GPUs needs two"),
]
SIZES = {
    "num_hidden_layers": 4, "hidden_size": 2048, "intermediate_size": 8192, "num_attention_heads": 32,
    "num_key_value_heads": 8, "max_position_embeddings": 512, "vocab_size": 32,
}  # fmt: skip


@pytest.mark.parametrize("weights", ["pretrained", "random"])
def test_each_gpu_of_a_split_model_is_measured(tmp_path, weights):
    """GIVEN two processes THEN one run lists both boards' joules for every component, which add up."""
    folder = save_model(tmp_path / "model", "llama", **SIZES)
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
        "-m", "energyscope", "run", str(folder), "--tensor-parallel", "--stages", "profile", "--weights", weights,
        "--granularity", "medium", "--layers", "kinds", "--phase", "decode", "--context-length", "256",
        "--passes", "2", "--component-budget", "1", "--precision", "bf16",
        "--root", str(tmp_path / "runs"), "--name", "split",
    ]  # fmt: skip
    done = subprocess.run(
        command,
        env={**os.environ, "OMP_NUM_THREADS": "4"},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    run = tmp_path / "runs" / "split"
    document = json.loads((run / "run.json").read_text())
    assert len(document["device"]["measured"]) == 2
    rows = {row["component"]: row for row in csv.DictReader((run / "per_layer_energy.csv").open())}
    for row in rows.values():
        each = [float(one) for one in (row["devices_mj"] or "").split(";") if one]
        if row["energy_mj"] and each:
            assert len(each) == 2
            assert sum(each) == pytest.approx(float(row["energy_mj"]), rel=0.02)
    model = rows["model"]
    first, second = (float(one) for one in model["devices_mj"].split(";"))
    assert 0.5 < first / second < 2  # boards differ by some percent, and rank 0's host does more
    blocks = sum(
        float(row["energy_mj"]) for row in rows.values() if row["kind"] in {"attention", "mlp", "lm_head"}
    )
    assert 0.4 < blocks / float(model["energy_mj"]) < 1.2
