"""Train the bundled models and write everything that ships with them.

python tools/bundled/train.py [--model NAME] [--output DIR] [--threads N]
"""

from __future__ import annotations

import argparse
import random
import shutil
from pathlib import Path

import cards
import reviews
import stories
import torch
from models import RECIPES, Recipe, build, tokenizer_for
from training import train

OUTPUT = Path(__file__).resolve().parents[2] / "energyscope" / "bundled"


def make(recipe: Recipe, output: Path) -> None:
    """Train one model from its seed, measure it, and write its directory."""
    random.seed(recipe.seed)
    torch.manual_seed(recipe.seed)
    torch.use_deterministic_algorithms(True)
    words = reviews.vocabulary() if recipe.task == "classification" else stories.vocabulary()
    tokenizer = tokenizer_for(recipe, words)
    model = build(recipe, tokenizer)
    seconds = train(model, tokenizer, recipe)
    card = cards.card_of(model, tokenizer, recipe, seconds)
    directory = output / recipe.name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    (directory / "model.safetensors").chmod(0o644)  # safetensors writes files that only their owner reads
    cards.write(directory, card)
    print(f"{directory}: {card['metric']} {card['results'][card['metric']]} after {seconds[0]:.0f} s")


def main() -> None:
    """Read the command line and make what it names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=sorted(RECIPES), action="append", help="one of them (by default all)")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="where the models' directories go")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (sums may be rounded otherwise)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name in options.model or sorted(RECIPES):
        make(RECIPES[name], options.output)


if __name__ == "__main__":
    main()
