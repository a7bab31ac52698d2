"""What prompt lookup gets accepted is counted on real text, and its text is that of generating without it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from energyscope.changes import lookup
from energyscope.changes.lookup import NEW_TOKENS, TEXTS, PromptLookup, why_no_lookup
from energyscope.errors import ModelError
from energyscope.loading import load_model
from energyscope.workloads import load_evaluation


@pytest.fixture(scope="module")
def llama():
    return load_model("tiny-llama", device="cpu")


@pytest.fixture(scope="module")
def evaluation(llama):
    return load_evaluation(llama, max_examples=60)


@pytest.fixture(scope="module")
def lookups(llama, evaluation):
    """Return a prompt lookup with its plain texts made, and what was accepted of three tokens."""
    made = PromptLookup(llama, evaluation)
    return made, made.accepted(3, 64)


def looked_up(text, proposed, end):
    """Return what followed the latest two tokens, else the latest, where they stood first and no text ended."""
    for length in (2, 1):
        for start in range(len(text) - length):
            after = text[start + length : start + length + proposed]
            guess = after[: after.index(end)] if end in after else after
            if text[start : start + length] == text[-length:] and guess:
                return guess
    return []


def counted(prompt, text, proposed, end):
    """Return tokens, steps and proposals of a known text, by the rule of prompt lookup alone."""
    done, steps, with_proposal, first = 0, 0, 0, 0
    while done < len(text):
        guess = looked_up([*prompt, *text[:done]], min(proposed, len(text) - done - 1), end)
        matches = 0
        while matches < len(guess) and guess[matches] == text[done + matches]:
            matches += 1
        if steps == 0:
            first = matches + 1
        else:
            with_proposal += bool(guess)
        done, steps = done + matches + 1, steps + 1
    return len(text) - first, steps - 1, with_proposal


def test_counts_are_those_of_the_rule(lookups, llama):
    """GIVEN the texts without prompt lookup THEN its rule, applied to them by hand, gives the same counts."""
    made, accepted = lookups
    prompts = [ids[0].tolist() for ids in made._prompts(64)]
    end = llama.tokenizer.eos_token_id
    by_rule = [counted(p, text.tolist(), 3, end) for p, text in zip(prompts, made._plain, strict=True)]
    assert [*zip(accepted.tokens, accepted.steps, accepted.proposed, strict=True)] == by_rule
    assert accepted.tokens_per_step.value > 1.1  # the grammar repeats itself


def test_texts_are_the_same_as_without(lookups):
    """GIVEN FP32 THEN no text differs, and there is no gap to tell of."""
    _, accepted = lookups
    assert (accepted.texts, accepted.same, accepted.largest_gap) == (TEXTS, TEXTS, None)
    assert accepted.prompt_tokens == 64


def test_prompts_are_stretches_of_the_data_none_twice(llama, evaluation):
    """GIVEN a context longer than a share of the data THEN prompts are shorter, and nothing is repeated."""
    prompts = PromptLookup(llama, evaluation)._prompts(10_000)
    available = sum(int(batch["attention_mask"].sum()) for batch in evaluation.batches)
    assert len(prompts) == TEXTS
    assert {ids.shape for ids in prompts} == {(1, available // TEXTS)}
    everything = torch.cat([batch["input_ids"][batch["attention_mask"].bool()] for batch in evaluation.batches])
    assert torch.equal(torch.cat(prompts, dim=1)[0], everything[: TEXTS * (available // TEXTS)])


def test_a_tie_that_rounding_breaks_is_counted(llama, evaluation, monkeypatch):
    """GIVEN a text that differs where two tokens are nearly tied THEN it is counted, with the gap between them."""
    made = PromptLookup(llama, evaluation)
    _differing(made, monkeypatch, gap=0.1)
    accepted = made.accepted(3, 32)
    assert (accepted.same, accepted.largest_gap) == (TEXTS - 1, 0.1)


def test_another_text_is_no_rounding(llama, evaluation, monkeypatch):
    """GIVEN a text that differs where the model was sure THEN prompt lookup is not judged, and it is said why."""
    made = PromptLookup(llama, evaluation)
    _differing(made, monkeypatch, gap=3.0)
    with pytest.raises(ModelError, match="1 text of 16 differ from those without it, by more than rounding"):
        made.accepted(3, 32)


def _differing(made, monkeypatch, gap):
    """Let one text without prompt lookup differ in its last token."""
    plain = [made._generate(ids)[0] for ids in made._prompts(32)]
    plain[2] = torch.cat([plain[2][:-1], plain[2][-1:] + 1])
    made._plain = plain
    monkeypatch.setattr(made, "_gap", lambda *_: gap)


def test_the_gap_is_between_the_two_tokens(lookups, llama):
    """GIVEN the same beginning and two last tokens THEN the gap is that of their logits after it."""
    made, _ = lookups
    ids, plain = made._prompts(64)[0], made._plain[0]
    other = plain.clone()
    other[5] = (plain[5] + 1) % 100
    with torch.no_grad():
        logits = llama.model(torch.cat([ids[0], plain[:5]])[None]).logits[0, -1]
    assert made._gap(ids, plain, other) == pytest.approx(abs(float(logits[plain[5]] - logits[other[5]])), abs=1e-4)


def test_too_little_text_is_said(llama):
    """GIVEN three examples THEN it is refused with how many tokens it takes."""
    with pytest.raises(ModelError, match=r"the evaluation data has \d+ tokens, and prompt lookup takes 256"):
        PromptLookup(llama, load_evaluation(llama, max_examples=3)).accepted(3, 64)


def test_random_weights_and_no_data_are_reasons(llama, evaluation):
    """GIVEN random weights, or no text, THEN there is nothing to count on; with both there is."""
    assert why_no_lookup(replace(llama, weights="random"), evaluation).code == "lookup-random-weights"
    assert why_no_lookup(llama, None).code == "lookup-without-text"
    assert why_no_lookup(llama, evaluation) is None


def test_the_model_is_left_as_it_was(lookups, llama):
    """No hook stays, and nothing of a generation."""
    assert not llama.model._forward_pre_hooks
    assert lookup.expected_seconds(0.01, first=True) == 2 * lookup.expected_seconds(0.01, first=False)
    assert NEW_TOKENS * TEXTS == 512
