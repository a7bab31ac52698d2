"""Identity: a tokenizer is known by what it does, not by its files."""

from __future__ import annotations

from pathlib import Path

from tiny_models import save_tokenizer
from transformers import AutoTokenizer

from energyscope.loading import LoadedModel, load_model
from energyscope.workloads.identity import identity, tokenizer_fingerprint


def test_the_same_tokenizer_saved_again_is_the_same(decoder: LoadedModel, tmp_path: Path) -> None:
    """GIVEN a tokenizer that is saved anew, or has cut a text since, THEN its fingerprint stays."""
    before = tokenizer_fingerprint(decoder.tokenizer)
    decoder.tokenizer(["the cat sees a dog"], truncation=True, max_length=2, padding=True)
    assert tokenizer_fingerprint(decoder.tokenizer) == before
    decoder.tokenizer.save_pretrained(tmp_path)
    assert tokenizer_fingerprint(AutoTokenizer.from_pretrained(tmp_path)) == before


def test_other_words_or_other_marks_make_another(decoder: LoadedModel, tmp_path: Path) -> None:
    """WHEN a word is added, or texts are put between marks, THEN the fingerprint is another."""
    own = tokenizer_fingerprint(decoder.tokenizer)
    tokenizers = []
    for name in ("wrapped", "added"):
        save_tokenizer(tmp_path / name, wrapped=name == "wrapped")
        tokenizers.append(AutoTokenizer.from_pretrained(tmp_path / name))
    tokenizers[1].add_tokens(["horse"])
    fingerprints = {own, *map(tokenizer_fingerprint, tokenizers)}
    assert len(fingerprints) == 3


def test_bundled_models_of_one_grammar_share_their_tokens() -> None:
    """tiny-gpt2 and tiny-llama were trained with one tokenizer; tiny-distilbert has its own."""
    first, second, third = (
        identity(load_model(name, device="cpu"))["tokenizer"]
        for name in ("tiny-gpt2", "tiny-llama", "tiny-distilbert")
    )
    assert first == second
    assert first != third
