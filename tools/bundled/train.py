"""Train the bundled models and write everything that ships with them.

python tools/bundled/train.py [--model NAME] [--output DIR] [--device cuda] [--threads N]

The two larger models are not bundled: they are made only where --model names them, and need --output.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
from pathlib import Path
from typing import Any

import cards
import reviews
import stories
import torch
from models import RECIPES, Recipe, build, tokenizer_for
from training import train

OUTPUT = Path(__file__).resolve().parents[2] / "energyscope" / "bundled"
BUNDLED = sorted(name for name, recipe in RECIPES.items() if recipe.bundled)


def make(recipe: Recipe, output: Path, device: str = "cpu") -> None:
    """Train one model from its seed, write its directory, and measure it as it was written."""
    random.seed(recipe.seed)
    torch.manual_seed(recipe.seed)
    # On a GPU some sums (the backward pass of attention) have no deterministic kernel; torch warns of them.
    torch.use_deterministic_algorithms(True, warn_only=device == "cuda")
    words = reviews.vocabulary() if recipe.task == "classification" else stories.vocabulary()
    tokenizer = tokenizer_for(recipe, words)
    model = build(recipe, tokenizer).to(device)
    seconds = train(model, tokenizer, recipe)
    directory = output / recipe.name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    model.to(recipe.saved).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    (directory / "model.safetensors").chmod(0o644)  # safetensors writes files that only their owner reads
    written = type(model).from_pretrained(directory, dtype=recipe.saved).to(device).eval()
    card = cards.card_of(written, tokenizer, recipe, seconds)
    cards.write(directory, card)
    _report(directory, card)


def _report(directory: Path, card: dict[str, Any]) -> None:
    """Print the measured results and which of the stated margins they miss."""
    print(f"{directory}: {card['parameters']:,} parameters, trained for {card['training']['seconds']} s")
    for name in ("results", "baselines"):
        for measure, value in card[name].items():
            print(f"  {name[:-1]} {measure}: {value}")
    missed = cards.missed(card)
    print("  every stated margin is kept" if not missed else f"  MISSED margins: {'; '.join(missed)}")


def main() -> None:
    """Read the command line and make what it names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--model", choices=sorted(RECIPES), action="append", help="one of them (by default the bundled ones)"
    )
    parser.add_argument("--output", type=Path, default=OUTPUT, help="where the models' directories go")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where to train and measure")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (sums may be rounded otherwise)")
    options = parser.parse_args()
    names = options.model or BUNDLED
    large = sorted(set(names) - set(BUNDLED))
    if large and options.output.resolve().is_relative_to(OUTPUT.parent):
        parser.exit(
            2, f"train.py: {', '.join(large)} is not bundled: name a folder outside the package by --output\n"
        )
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.exit(2, "train.py: torch sees no CUDA device\n")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with it
    torch.set_num_threads(options.threads)
    for name in names:
        make(RECIPES[name], options.output, options.device)


if __name__ == "__main__":
    main()
