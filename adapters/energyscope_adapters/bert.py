"""BERT with a classification head: post-norm encoder layers, learned positions, token types, a pooler.

Each half of a layer adds its residual and normalises inside the same module as its last projection
(``attention.output``, ``output``). These two modules are no components, but what they hold is:

    attention.self              attention
    attention.output.dense      attention.output
    attention.output.LayerNorm  norm
    intermediate                mlp
    output.dense                mlp.down
    output.LayerNorm            norm

So the blocks do not overlap and hold what DistilBERT's do; residual additions are glue of the layer there and
here, and a removed block leaves the residual stream as it is. At medium granularity, an attention is the sum of
``attention`` and ``attention.output``, an MLP of ``mlp`` and ``mlp.down``.
"""

from __future__ import annotations

from energyscope.adapters import SDPA, Adapter, Checkpoint, Part

LAYER = "bert.encoder.layer.{layer}"


def _bert(size: str, hidden: int, layers: int) -> Checkpoint:
    """Return an uncased BERT, fine-tuned on SST-2; heads have a width of 64, and the MLP is four times as wide.

    Google's own checkpoints have no classification head: their predictions could not be judged. These have one,
    and both sizes were fine-tuned by one recipe (Matsubara, torchdistill).
    """
    configuration = {
        "vocab_size": 30522,
        "hidden_size": hidden,
        "intermediate_size": 4 * hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": hidden // 64,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
        "id2label": {0: "NEGATIVE", 1: "POSITIVE"},
        "label2id": {"NEGATIVE": 0, "POSITIVE": 1},
    }
    return Checkpoint(f"yoshitomo-matsubara/bert-{size}-uncased-sst2", configuration)


adapter = Adapter(
    name="bert",
    model_types=("bert",),
    task="classification",
    auto_class="AutoModelForSequenceClassification",
    layers="bert.encoder.layer",
    dataset="sst2",
    parts=(
        Part("embedding", "bert.embeddings", "coarse"),
        Part("embedding", "bert.embeddings.word_embeddings", "fine"),
        Part("embedding", "bert.embeddings.token_type_embeddings", "fine"),
        Part("embedding", "bert.embeddings.position_embeddings", "fine"),
        Part("norm", "bert.embeddings.LayerNorm", "fine"),
        Part("layer", LAYER, "coarse"),
        Part("attention", f"{LAYER}.attention.self", "medium"),
        Part("attention.query", f"{LAYER}.attention.self.query", "fine"),
        Part("attention.key", f"{LAYER}.attention.self.key", "fine"),
        Part("attention.value", f"{LAYER}.attention.self.value", "fine"),
        Part("attention.core", f"{LAYER}.attention.self", "fine", optional=True, function=SDPA),
        Part("attention.output", f"{LAYER}.attention.output.dense", "medium"),
        Part("norm", f"{LAYER}.attention.output.LayerNorm", "medium"),
        Part("mlp", f"{LAYER}.intermediate", "medium"),
        Part("mlp.up", f"{LAYER}.intermediate.dense", "fine"),
        Part("mlp.activation", f"{LAYER}.intermediate.intermediate_act_fn", "fine"),
        Part("mlp.down", f"{LAYER}.output.dense", "medium"),
        Part("norm", f"{LAYER}.output.LayerNorm", "medium"),
        Part("pooler", "bert.pooler", "coarse"),
        Part("classifier", "classifier", "coarse"),
    ),
    checkpoints={"bert-base": _bert("base", 768, 12), "bert-large": _bert("large", 1024, 24)},
)
