"""DistilBERT with a classification head: post-norm encoder layers, learned positions, no token types."""

from __future__ import annotations

from energyscope.adapters import SDPA, Adapter, Checkpoint, Part

LAYER = "distilbert.transformer.layer.{layer}"

adapter = Adapter(
    name="distilbert",
    model_types=("distilbert",),
    task="classification",
    auto_class="AutoModelForSequenceClassification",
    layers="distilbert.transformer.layer",
    dataset="sst2",
    parts=(
        Part("embedding", "distilbert.embeddings", "coarse"),
        Part("embedding", "distilbert.embeddings.word_embeddings", "fine"),
        Part("embedding", "distilbert.embeddings.position_embeddings", "fine"),
        Part("norm", "distilbert.embeddings.LayerNorm", "fine"),
        Part("layer", LAYER, "coarse"),
        Part("attention", f"{LAYER}.attention", "medium"),
        Part("attention.query", f"{LAYER}.attention.q_lin", "fine"),
        Part("attention.key", f"{LAYER}.attention.k_lin", "fine"),
        Part("attention.value", f"{LAYER}.attention.v_lin", "fine"),
        Part("attention.core", f"{LAYER}.attention", "fine", optional=True, function=SDPA),
        Part("attention.output", f"{LAYER}.attention.out_lin", "fine"),
        Part("norm", f"{LAYER}.sa_layer_norm", "medium"),
        Part("mlp", f"{LAYER}.ffn", "medium"),
        Part("mlp.up", f"{LAYER}.ffn.lin1", "fine"),
        Part("mlp.activation", f"{LAYER}.ffn.activation", "fine"),
        Part("mlp.down", f"{LAYER}.ffn.lin2", "fine"),
        Part("norm", f"{LAYER}.output_layer_norm", "medium"),
        Part("pooler", "pre_classifier", "coarse"),
        Part("classifier", "classifier", "coarse"),
    ),
    checkpoints={
        "distilbert": Checkpoint(
            "distilbert/distilbert-base-uncased-finetuned-sst-2-english",
            {
                "vocab_size": 30522,
                "max_position_embeddings": 512,
                "n_layers": 6,
                "n_heads": 12,
                "dim": 768,
                "hidden_dim": 3072,
                "activation": "gelu",
                "pad_token_id": 0,
                "id2label": {0: "NEGATIVE", 1: "POSITIVE"},
                "label2id": {"NEGATIVE": 0, "POSITIVE": 1},
            },
        )
    },
)
