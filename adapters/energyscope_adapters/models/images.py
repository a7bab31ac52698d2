"""Vision transformers: ViT, and the image encoder of CLIP."""

from __future__ import annotations

from energyscope.adapters import Checkpoint


def _vit(size: str, hidden: int, layers: int) -> Checkpoint:
    """Return a ViT that is trained on the 1000 classes of ImageNet: heads of 64, an MLP four times as wide."""
    configuration = {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": hidden // 64,
        "intermediate_size": 4 * hidden,
        "image_size": 224,
        "patch_size": 16,
        "num_channels": 3,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "qkv_bias": True,
        "num_labels": 1000,
    }
    return Checkpoint(
        f"google/vit-{size}-patch16-224", configuration, model_type="vit", architecture="ViTForImageClassification"
    )


IMAGES = {
    "vit-base": _vit("base", 768, 12),
    "vit-large": _vit("large", 1024, 24),
    # Published without a classifier: this is the image encoder, with a head of two classes that must be trained.
    "clip-vit-base": Checkpoint(
        "openai/clip-vit-base-patch32",
        {
            "vision_config": {
                "hidden_size": 768,
                "intermediate_size": 3072,
                "num_hidden_layers": 12,
                "num_attention_heads": 12,
                "image_size": 224,
                "patch_size": 32,
                "projection_dim": 512,
                "hidden_act": "quick_gelu",
                "layer_norm_eps": 1e-5,
            },
            "projection_dim": 512,
        },
        model_type="clip",
        architecture="CLIPForImageClassification",
    ),
}
