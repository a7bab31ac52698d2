"""What is measured after training and written beside the weights: ``card.json`` and the model card."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import evaluation
import torch
import transformers
from models import Recipe

FAMILIES = {"distilbert": "DistilBERT", "gpt2": "GPT-2", "llama": "Llama"}


def measure(model: Any, tokenizer: Any, recipe: Recipe) -> dict[str, Any]:
    """Return the results, the baselines and the stated margins, all on the held-out data."""
    if recipe.task == "classification":
        return _measure_classifier(model, tokenizer)
    return _measure_next_token(model, tokenizer)


def _measure_classifier(model: Any, tokenizer: Any) -> dict[str, Any]:
    items = evaluation.held_out_reviews()
    results = {"accuracy": evaluation.accuracy(model, tokenizer, items)}
    with evaluation.without_attention(model):
        results["accuracy_without_attention"] = evaluation.accuracy(model, tokenizer, items)
    return {
        "metric": "accuracy",
        "results": results,
        "baselines": evaluation.classification_baselines(tokenizer, items),
        "margins": {"accuracy_above_baselines": evaluation.ACCURACY_MARGIN},
    }


def _measure_next_token(model: Any, tokenizer: Any) -> dict[str, Any]:
    items, choices = evaluation.held_out_stories(), evaluation.held_out_choices()
    results: dict[str, Any] = {"perplexity": evaluation.perplexity(model, tokenizer, items)}
    results["choice_accuracy"] = evaluation.choice_accuracy(model, tokenizer, choices)
    with evaluation.without_attention(model):
        results["perplexity_without_attention"] = evaluation.perplexity(model, tokenizer, items)
        results["choice_accuracy_without_attention"] = evaluation.choice_accuracy(model, tokenizer, choices)
    ngrams = evaluation.ngram_models(tokenizer)
    names = {1: "unigram", 2: "bigram", 3: "trigram"}
    baselines: dict[str, Any] = {
        name: evaluation.ngram_perplexity(ngrams[order], tokenizer, items) for order, name in names.items()
    }
    baselines["bigram_choice_accuracy"] = evaluation.ngram_choice_accuracy(ngrams[2], tokenizer, choices)
    return {
        "metric": "perplexity",
        "results": results,
        "baselines": baselines,
        "margins": {
            "perplexity_of_bigram": evaluation.PERPLEXITY_RATIO,
            "choice_accuracy_above_bigram": dict.fromkeys(evaluation.RULES, evaluation.CHOICE_MARGIN),
        },
    }


def missed(card: dict[str, Any]) -> list[str]:
    """Return the stated margins that the measured results do not keep, a line each."""
    checks = _classifier_checks(card) if card["task"] == "classification" else _next_token_checks(card)
    return [check for check, kept in checks.items() if not kept]


def _classifier_checks(card: dict[str, Any]) -> dict[str, bool]:
    results, best = card["results"], max(card["baselines"].values())
    least = best + card["margins"]["accuracy_above_baselines"]
    return {
        f"accuracy at least {least:.3f}": results["accuracy"] >= least,
        f"accuracy without attention at most {best:.3f}": results["accuracy_without_attention"] <= best,
    }


def _next_token_checks(card: dict[str, Any]) -> dict[str, bool]:
    results, baselines, margins = card["results"], card["baselines"], card["margins"]
    bigram, silenced = baselines["bigram"], results["perplexity_without_attention"]
    most = bigram * margins["perplexity_of_bigram"]
    checks = {
        f"perplexity at most {most:.3f}": results["perplexity"] <= most,
        f"perplexity without attention at least {bigram:.3f}": silenced >= bigram,
    }
    for rule, margin in margins["choice_accuracy_above_bigram"].items():
        least = baselines["bigram_choice_accuracy"][rule] + margin
        silenced = results["choice_accuracy_without_attention"][rule]
        checks[f"{rule} at least {least:.3f}"] = results["choice_accuracy"][rule] >= least
        checks[f"{rule} without attention below {least:.3f}"] = silenced < least
    return checks


def card_of(model: Any, tokenizer: Any, recipe: Recipe, seconds: tuple[float, float]) -> dict[str, Any]:
    """Return everything that is known of a trained model, ready for JSON."""
    config = model.config
    on_gpu = model.device.type == "cuda"
    command = f"python tools/bundled/train.py --model {recipe.name}"
    command += (" --device cuda" if on_gpu else "") + ("" if recipe.bundled else " --output DIR")
    return {
        "name": recipe.name,
        "task": recipe.task,
        "model_type": config.model_type,
        "layers": config.num_hidden_layers,
        "hidden_size": config.hidden_size,
        "attention_heads": config.num_attention_heads,
        "key_value_heads": getattr(config, "num_key_value_heads", config.num_attention_heads),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "vocabulary": len(tokenizer),
        "positions": config.max_position_embeddings,
        "evaluation": {"file": "evaluation.jsonl", "texts": evaluation.EVALUATION_TEXTS},
        **_rounded(measure(model, tokenizer, recipe)),
        "training": {
            "texts": recipe.texts,
            "unit": "reviews" if recipe.task == "classification" else "stories",
            "batch_size": recipe.batch_size,
            "learning_rate": recipe.learning_rate,
            "seed": recipe.seed,
            "seconds": round(seconds[0]),
            "processor_seconds": round(seconds[1]),
            "threads": torch.get_num_threads(),
            "command": command,
            **({"device": torch.cuda.get_device_name(model.device)} if on_gpu else {}),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
    }


def write(directory: Path, card: dict[str, Any]) -> None:
    """Write card.json, the model card and the evaluation data."""
    _write(directory / "card.json", json.dumps(card, indent=1) + "\n")
    _write(directory / "README.md", model_card(card))
    if card["task"] == "classification":
        _write(directory / "evaluation.jsonl", _lines(evaluation.held_out_reviews()))
    else:
        _write(directory / "evaluation.jsonl", _lines(evaluation.held_out_stories()))
        _write(directory / "choices.jsonl", _lines(evaluation.held_out_choices()))


def model_card(card: dict[str, Any]) -> str:
    """Return the model card as Markdown, with the header that model hubs read."""
    classifier = card["task"] == "classification"
    pipeline = "text-classification" if classifier else "text-generation"
    lines = [
        *("---", "license: mit", "language: en", f"pipeline_tag: {pipeline}", "library_name: transformers", "---"),
        *("", f"# {card['name']}", "", _summary(card), ""),
        "It is a specimen for measuring where a transformer's energy goes and which parts its predictions",
        "need. It knows the words of its own grammar and nothing of the world.",
        *("", f"## Held-out results ({card['evaluation']['texts']} texts, no sentence seen in training)", ""),
        *(_classifier_table(card) if classifier else _next_token_table(card)),
        *("", "## Training", "", _training(card["training"]), ""),
    ]
    return "\n".join(lines)


def _summary(card: dict[str, Any]) -> str:
    does = "says whether a short review is favourable"
    if card["task"] == "next-token":
        does = "tells little stories, word by word"
    family = FAMILIES[card["model_type"]]
    return (
        f"A {family} model that {does}: {card['layers']} layers of width {card['hidden_size']}, "
        f"{card['attention_heads']} attention heads ({card['key_value_heads']} for keys and values), "
        f"{card['parameters']:,} parameters, {card['vocabulary']} words, {card['positions']} positions."
    )


def _training(training: dict[str, Any]) -> str:
    seconds = f"{training['processor_seconds']} s of one CPU core ({training['seconds']} s by the clock)"
    if "device" in training:
        seconds = f"{training['seconds']} s by the clock on one {training['device']}"
    return (
        f"`{training['command']}`: about {training['texts']:,} fresh {training['unit']}, each seen once, "
        f"in batches of {training['batch_size']}, AdamW at {training['learning_rate']:g} (one cycle), "
        f"seed {training['seed']}, {seconds}, torch {training['torch']}, "
        f"transformers {training['transformers']}."
    )


def _classifier_table(card: dict[str, Any]) -> list[str]:
    results, baselines = card["results"], card["baselines"]
    margin = card["margins"]["accuracy_above_baselines"]
    readers = (
        ("**this model**", results["accuracy"]),
        ("this model, the output of every attention block zeroed", results["accuracy_without_attention"]),
        ("majority label", baselines["majority"]),
        ("bag of words (logistic regression)", baselines["bag_of_words"]),
        ("words and pairs of neighbours (logistic regression)", baselines["bigram"]),
    )
    lines = [f"| {reader} | {accuracy:.3f} |" for reader, accuracy in readers]
    stated = f"Stated margin: at least {margin:g} above each baseline; without attention it is lost."
    return ["| reader | accuracy |", "|---|---|", *lines, "", stated]


def _next_token_table(card: dict[str, Any]) -> list[str]:
    results, baselines = card["results"], card["baselines"]
    rules = sorted(results["choice_accuracy"])
    silenced = (results["perplexity_without_attention"], results["choice_accuracy_without_attention"])
    readers = (
        ("**this model**", results["perplexity"], results["choice_accuracy"]),
        ("this model, the output of every attention block zeroed", *silenced),
        ("unigram", baselines["unigram"], None),
        ("bigram", baselines["bigram"], baselines["bigram_choice_accuracy"]),
        ("trigram", baselines["trigram"], None),
    )
    lines = ["| reader | perplexity | " + " | ".join(rules) + " |", "|---" * (2 + len(rules)) + "|"]
    for reader, perplexity, choices in readers:
        shares = " | ".join(f"{choices[rule]:.3f}" if choices else "" for rule in rules)
        lines.append(f"| {reader} | {perplexity:.2f} | {shares} |")
    return [*lines, "", *_next_token_notes(card["margins"])]


def _next_token_notes(margins: dict[str, Any]) -> list[str]:
    over_bigram = margins["choice_accuracy_above_bigram"]
    return [
        "The last columns are the share of determined words at which the right word is likelier than the one",
        "that a shallow reader could take (for agreement: where a noun of the other number stands in between).",
        "",
        f"Stated margins: at most {margins['perplexity_of_bigram']:g} of the bigram model's perplexity, and",
        f"{min(over_bigram.values()):g} above its accuracy for {', '.join(sorted(over_bigram))}.",
        "Without attention both are lost. No margin is stated for binding (which of several things had which",
        "colour): near one half it was not learned.",
    ]


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return round(value, 5) if isinstance(value, float) else value


def _lines(items: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(item) + "\n" for item in items)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
