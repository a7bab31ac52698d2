"""The bundled models have learned structure, and their cards tell the truth about them."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from typing import Any

import cards
import evaluation
import grammar
import pytest
import reviews
import stories
import torch
import transformers

from energyscope import bundled
from energyscope.errors import UsageError

NEXT_TOKEN = ("tiny-gpt2", "tiny-llama")
TOLERANCE = 0.005  # of recomputed numbers: another processor may round otherwise and turn a close call


@cache
def loaded(name: str) -> tuple[Any, Any]:
    """Load a bundled model as its users do."""
    classifier = name == "tiny-distilbert"
    auto = transformers.AutoModelForSequenceClassification if classifier else transformers.AutoModelForCausalLM
    path = bundled.directory(name)
    return auto.from_pretrained(path).eval(), transformers.AutoTokenizer.from_pretrained(path)


def lines(name: str, file: str = "evaluation.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (bundled.directory(name) / file).read_text("utf-8").splitlines()]


@cache
def bigram(name: str) -> Any:
    return evaluation.ngram_models(loaded(name)[1], orders=(2,))[2]


@cache
def baselines_of_sentiment() -> dict[str, float]:
    """Return the accuracies of baselines that are fitted to freshly drawn training texts."""
    return evaluation.classification_baselines(loaded("tiny-distilbert")[1], lines("tiny-distilbert"))


@cache
def results(name: str) -> tuple[float, float]:
    """Return a model's accuracy, or its perplexity, on the shipped data: with attention, and without."""
    model, tokenizer = loaded(name)
    measure = evaluation.accuracy if name == "tiny-distilbert" else evaluation.perplexity
    attending = measure(model, tokenizer, lines(name))
    with evaluation.without_attention(model):
        return attending, measure(model, tokenizer, lines(name))


class TestFiles:
    @pytest.mark.parametrize("name", bundled.MODELS)
    def test_every_weight_is_loaded_and_nothing_is_left_over(self, name: str) -> None:
        """GIVEN a bundled directory WHEN it is loaded THEN all weights come from it, tied ones included."""
        auto = type(loaded(name)[0])
        _, info = auto.from_pretrained(bundled.directory(name), output_loading_info=True)
        assert not info["missing_keys"]
        assert not info["unexpected_keys"]
        assert not info["mismatched_keys"]

    @pytest.mark.parametrize("name", bundled.MODELS)
    def test_weights_are_safetensors_of_a_few_megabytes(self, name: str) -> None:
        """The directory holds one weight file, safetensors, and all of it is under 4 MB."""
        files = list(bundled.directory(name).iterdir())
        assert [file.name for file in files if file.suffix in {".bin", ".pt", ".safetensors"}] == [
            "model.safetensors"
        ]
        assert sum(file.stat().st_size for file in files) < 4e6

    @pytest.mark.parametrize("name", NEXT_TOKEN)
    def test_head_and_embedding_are_one_tensor(self, name: str) -> None:
        """The next-token models tie their head to their embedding, and stay tied when loaded."""
        model, _ = loaded(name)
        assert model.get_output_embeddings().weight is model.get_input_embeddings().weight

    def test_llama_shares_keys_between_query_heads(self) -> None:
        """tiny-llama has fewer key-value heads than query heads, as the large ones of its family."""
        config = loaded("tiny-llama")[0].config
        assert config.num_key_value_heads < config.num_attention_heads

    @pytest.mark.parametrize("name", bundled.MODELS)
    def test_card_tells_the_shape(self, name: str) -> None:
        """The card's sizes are those of the loaded model."""
        model, tokenizer = loaded(name)
        card = bundled.describe(name)
        assert card["parameters"] == sum(weight.numel() for weight in model.parameters())
        assert card["layers"] == model.config.num_hidden_layers
        assert 4 <= card["layers"] <= 6
        assert card["vocabulary"] == len(tokenizer) == model.config.vocab_size
        assert card["evaluation"]["texts"] == len(lines(name))

    @pytest.mark.parametrize("name", bundled.MODELS)
    def test_model_card_shows_the_numbers_of_the_card(self, name: str) -> None:
        """README.md is written from card.json, so that the two cannot say different things."""
        readme = (bundled.directory(name) / "README.md").read_text("utf-8")
        assert readme == cards.model_card(bundled.describe(name))

    @pytest.mark.parametrize("name", bundled.MODELS)
    def test_long_inputs_are_read(self, name: str) -> None:
        """Inputs of 256 tokens and more give finite outputs."""
        model, tokenizer = loaded(name)
        text = " ".join(item["text"] for item in lines(name)[:12])
        encoded = tokenizer(text, truncation=True, max_length=320, return_tensors="pt")
        with torch.inference_mode():
            logits = model(**encoded).logits
        assert encoded["input_ids"].shape[1] >= 256
        assert logits.isfinite().all()

    @pytest.mark.parametrize("name", bundled.MODELS)
    def test_no_word_of_the_evaluation_data_is_unknown(self, name: str) -> None:
        """The tokenizer knows each word of the held-out data, and spells a text back."""
        _, tokenizer = loaded(name)
        text = lines(name)[0]["text"]
        assert all(tokenizer.unk_token_id not in tokenizer(item["text"])["input_ids"] for item in lines(name))
        spelled = tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True)
        assert grammar.spell(spelled.split()) == text

    def test_unknown_name_is_refused_with_the_nearest(self) -> None:
        """WHEN a bundled name is mistyped THEN the one line says which was meant."""
        with pytest.raises(UsageError, match="did you mean 'tiny-gpt2'"):
            bundled.directory("tiny-gpt3")

    def test_asking_for_a_directory_imports_no_torch(self) -> None:
        """The package can say where its models are without loading torch."""
        code = "import sys, energyscope.bundled as b; b.describe('tiny-gpt2'); sys.exit('torch' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class TestSentiment:
    name = "tiny-distilbert"

    def test_results_are_those_of_the_card(self) -> None:
        """WHEN accuracy is computed again on the shipped data THEN it is what the card says, with and without
        attention.
        """
        stated = bundled.describe(self.name)["results"]
        accuracy, silenced = results(self.name)
        assert accuracy == pytest.approx(stated["accuracy"], abs=TOLERANCE)
        assert silenced == pytest.approx(stated["accuracy_without_attention"], abs=TOLERANCE)

    def test_structure_is_needed_and_learned(self) -> None:
        """GIVEN baselines fitted to freshly drawn training texts THEN the model beats each by the stated margin
        with attention, and by none of it without.
        """
        margin = bundled.describe(self.name)["margins"]["accuracy_above_baselines"]
        best = max(baselines_of_sentiment().values())
        accuracy, silenced = results(self.name)
        assert margin >= 0.2
        assert accuracy >= best + margin
        assert silenced <= best

    def test_baselines_are_those_of_the_card(self) -> None:
        """The card does not understate what the baselines reach."""
        assert baselines_of_sentiment() == pytest.approx(bundled.describe(self.name)["baselines"], abs=0.02)

    def test_one_negation_turns_the_verdict_round(self) -> None:
        """A negation far from the verdict word flips the label, and the clause after "although" does not count."""
        model, tokenizer = loaded(self.name)
        texts = [
            "the film was superb.",
            "the film was not in my opinion superb.",
            "although the film was superb, the songs were awful.",
            "although the film was awful, the songs were superb.",
        ]
        with torch.inference_mode():
            labels = model(**tokenizer(texts, padding=True, return_tensors="pt")).logits.argmax(-1).tolist()
        assert labels == [1, 0, 0, 1]


@pytest.mark.parametrize("name", NEXT_TOKEN)
class TestNextToken:
    def test_results_are_those_of_the_card(self, name: str) -> None:
        """WHEN perplexity is computed again on the shipped data THEN it is what the card says, with and without
        attention.
        """
        stated = bundled.describe(name)["results"]
        perplexity, silenced = results(name)
        assert perplexity == pytest.approx(stated["perplexity"], rel=TOLERANCE)
        assert silenced == pytest.approx(stated["perplexity_without_attention"], rel=TOLERANCE)

    def test_perplexity_beats_the_bigram_model_by_the_margin(self, name: str) -> None:
        """GIVEN a bigram model fitted to freshly drawn training texts THEN perplexity is at most the stated part
        of the bigram's with attention, and no better than it without.
        """
        card = bundled.describe(name)
        baseline = evaluation.ngram_perplexity(bigram(name), loaded(name)[1], lines(name))
        perplexity, silenced = results(name)
        assert baseline == pytest.approx(card["baselines"]["bigram"], rel=0.01)
        assert card["margins"]["perplexity_of_bigram"] <= 0.6
        assert perplexity <= baseline * card["margins"]["perplexity_of_bigram"]
        assert silenced >= baseline

    def test_determined_words_are_known(self, name: str) -> None:
        """Agreement, reflexives, polarity, contrast and recall: each rule is followed better than by the bigram
        model, by the stated margin, and as the card says; without attention none is.
        """
        model, tokenizer = loaded(name)
        card, choices = bundled.describe(name), lines(name, "choices.jsonl")
        followed = evaluation.choice_accuracy(model, tokenizer, choices)
        baseline = evaluation.ngram_choice_accuracy(bigram(name), tokenizer, choices)
        with evaluation.without_attention(model):
            silenced = evaluation.choice_accuracy(model, tokenizer, choices)
        assert followed == pytest.approx(card["results"]["choice_accuracy"], abs=0.02)
        margins = card["margins"]["choice_accuracy_above_bigram"]
        assert set(margins) >= {"agreement", "contrast", "polarity", "recall", "reflexive"}
        for rule, margin in margins.items():
            assert margin >= 0.2
            assert followed[rule] >= baseline[rule] + margin, rule
            assert silenced[rule] < baseline[rule] + margin, rule


class TestGrammar:
    def test_same_seed_same_texts(self) -> None:
        """GIVEN one seed WHEN texts are drawn twice THEN they are the same, and another seed gives others."""
        assert stories.story_texts(20, 5, "training") == stories.story_texts(20, 5, "training")
        assert stories.story_texts(20, 5, "training") != stories.story_texts(20, 6, "training")
        assert reviews.reviews(20, 5, "training") == reviews.reviews(20, 5, "training")
        assert reviews.reviews(20, 5, "training") != reviews.reviews(20, 6, "training")

    def test_shipped_data_is_what_the_grammar_gives(self) -> None:
        """The evaluation files are the grammar's held-out texts, unaltered."""
        assert lines("tiny-distilbert") == evaluation.held_out_reviews()
        for name in NEXT_TOKEN:
            assert lines(name) == evaluation.held_out_stories()
            assert lines(name, "choices.jsonl") == evaluation.held_out_choices()

    @pytest.mark.parametrize("name", bundled.MODELS)
    def test_no_held_out_sentence_occurs_in_training(self, name: str) -> None:
        """GIVEN training texts as the model saw them THEN no sentence of the evaluation data is among them."""
        seed = bundled.describe(name)["training"]["seed"]
        if name == "tiny-distilbert":
            seen = [review.text for review in reviews.reviews(5_000, seed, "training")]
        else:
            seen = stories.story_texts(5_000, seed, "training")
        trained = {sentence for text in seen for sentence in grammar.sentences(text)}
        held_out = {sentence for item in lines(name) for sentence in grammar.sentences(item["text"])}
        assert len(held_out) > 500
        assert not held_out & trained
        assert {grammar.side_of(sentence) for sentence in held_out} == {"held-out"}

    def test_labels_are_balanced(self) -> None:
        """Half of the held-out reviews are favourable, so always answering one label gets half of them."""
        labels = [item["label"] for item in lines("tiny-distilbert")]
        assert sum(labels) * 2 == len(labels)
