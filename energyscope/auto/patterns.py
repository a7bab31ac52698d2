"""What tells a module's kind where structure does not: a table of patterns over names and classes.

A row is one rule: in which place it holds, what the module's class and its name look like, what shape it has, and
the kind that follows. Rows are read from the top, and the first that fits decides.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

OUTSIDE, EMBEDDING, HEAD, LAYER = "outside", "embedding", "head", "layer"  # places: what a module is part of
ATTENTION, CROSS_ATTENTION, MLP, MIXER = "attention", "cross_attention", "mlp", "mixer"
CONVOLUTION = "convolution"
UNDECLARED = "undeclared"  # the kind of what may not be called: it stays in its parent
TRANSPARENT = ""  # the kind of what is no component: its modules are looked at in its place


@dataclass(frozen=True)
class Rule:
    """A module of a ``shape`` in one of the ``places``, with such a class or name, is of this ``kind``.

    ``class_name`` and ``name`` are regular expressions: one must be found; with neither, the shape decides.
    ``shape`` is a word of `energyscope.auto.shapes`; ``below`` is the place of the module's modules, None where
    they are not looked at.
    """

    kind: str
    places: str
    class_name: str = ""
    name: str = ""
    shape: str = "any"
    below: str | None = None

    def reason(self, class_name: str, name: str, shapes: frozenset[str]) -> str | None:
        """Return why the rule holds for a module, None if it does not."""
        if self.shape not in shapes:
            return None
        if self.class_name and re.search(self.class_name, class_name):
            return f"class {class_name}"
        if self.name and re.search(self.name, name, re.IGNORECASE):
            return f"{_SHAPES.get(self.shape, 'module')} named {name}"
        return None if self.class_name or self.name else f"shape: {_SHAPES[self.shape]}"


_SHAPES = {
    "any": "module",
    "linear": "linear",
    "widening": "linear with more outputs than inputs",
    "narrowing": "linear with fewer outputs than inputs",
    "bank": "weights of several experts",
    "vector": "one vector of weights",
    "weightless": "function without weights",
    "convolution": "convolution",
    "tiling": "convolution whose stride is its kernel",
    "convolutional": "holds convolutions, and no other matrices",
    "embedding": "table of rows",
    "matrices": "module with matrices",
    "container": "holds modules with weights",
    "weighted": "module with weights",
    "leaf": "module",
}

_NORM = r"Norm(Gated)?$|LayerNorm|RMSNorm"
_ACTIVATION = r"(?i)(gelu|silu|relu|swish|mish|sigmoid|tanh|activation|glu)"
_ATTENTION = r"Attention|Attn|MLA$|SelfAtt"
_MIXER = (
    r"Mixer|Mamba|DeltaNet|Delta(Attention)?$|Recurrent|ShortConv|SSM|Rwkv|LightningAttention|LSTM|Modulation$"
)
MLP_CLASSES = r"MLP|Mlp|FeedForward|FFN|Intermediate|DenseRelu|DenseAct|DenseGated|MoE|Moe|Expert"
# attention to the states of an encoder; rules for what is inside it are those of attention
CROSS = re.compile(r"cross_?att|enc(oder)?_?(dec_?)?att|encdecatt", re.IGNORECASE)
_PATCHES = r"Patch\w*(Embed|Merging)"
_PROJECTOR = r"projector|connector|merger|modality|^embed_(vision|audio)$|^visual_projection$"
_Q = r"^(q|wq|to_q|project_q|query_proj|q_lin|q_head|q_proj|q_attn|q_[ab]_proj|wq_[ab])$|^(\w+_)?query(_\w+)?$"
_K = r"^(k|wk|to_k|project_k|key_proj|k_lin|k_head|k_proj|k_[ab]_proj)$|^(\w+_)?key(_\w+)?$"
_V = r"^(v|wv|to_v|project_v|value_proj|v_lin|v_head|v_proj|v_[ab]_proj|v_proj_\w+)$|^(\w+_)?value(_\w+)?$"
_QKV = r"^(w?qkv|w?qkv_proj|c_attn|query_key_value|in_proj|in_proj_qkv\w*|kv|kv_proj|kv_[ab]_proj\w*|q_gate_proj)$"
_OUTPUT = (
    r"^(o|wo|out|output|dense|o(_[ab])?_proj|out_(proj|lin)|c_proj|w_out|attention_out|(post_)?proj|linear_out)$"
)
RULES: tuple[Rule, ...] = (
    Rule("rotary", "outside embedding layer attention", r"Rotary|RoPE|Rope"),
    Rule("norm", "outside embedding head layer attention mlp mixer convolution", _NORM, shape="leaf"),
    Rule("norm", "outside embedding layer attention mixer convolution", "", r"norm|^ln_?\w*$", shape="vector"),
    # around the layers
    Rule("pooler", "outside", r"Pool(er|ing)|SequenceSummary", r"^(pooler|pre_classifier|sequence_summary)$"),
    Rule("classifier", "outside", r"Classification(Head|Model)",
         r"^(classifier|score|classification_head|logits_proj|out_proj)$", shape="weighted"),
    Rule("lm_head", "outside", r"(LM|MLM|Prediction|PreTraining)s?(Layer|Head)s?$",
         r"^(lm_head|cls|generator_predictions|output_projection)$", below=HEAD),
    Rule("lm_head", "head", shape="linear"),
    Rule(TRANSPARENT, "head", shape="container", below=HEAD),
    Rule("patch_embedding", "outside embedding", _PATCHES, r"^patch_embed\w*$", shape="weighted", below=EMBEDDING),
    Rule("patch_embedding", "outside embedding", shape="tiling"),
    Rule("embedding", "outside", _PROJECTOR, _PROJECTOR, shape="weighted", below=EMBEDDING),
    Rule("embedding", "outside embedding", r"Embeddings?$", r"^(embed|embeddings|wte|wpe)\w*$", shape="weighted",
         below=EMBEDDING),
    Rule("embedding", "outside embedding", shape="embedding"),
    Rule("convolution", "outside embedding layer mlp convolution", shape="convolution"),
    Rule("convolution", "outside embedding layer", shape="convolutional", below=CONVOLUTION),
    Rule(TRANSPARENT, "convolution", shape="container", below=CONVOLUTION),
    Rule("embedding", "embedding", shape="linear"),
    Rule(TRANSPARENT, "embedding", shape="container", below=EMBEDDING),
    Rule("embedding", "outside", "", r"^(embeddings_project|embedding_hidden_mapping_in|project_in)$", "linear"),
    Rule("embedding", "outside layer", "", r"^per_layer_\w*projection$", "linear"),  # of a layer's own embedding
    # a layer's blocks
    Rule(TRANSPARENT, "layer", r"(Decoder|Encoder|Transformer)Layer$", shape="container", below=LAYER),
    Rule("mixer", "layer", _MIXER, r"^(mamba|linear_attn|conv)$", shape="matrices", below=MIXER),
    Rule("attention", "layer", _ATTENTION, r"attn|attention|^self_att|^mha$", shape="matrices", below=ATTENTION),
    Rule("mlp", "layer", MLP_CLASSES, r"mlp|^ffn?\w*$|feed_?forward|intermediate|moe", "container", MLP),
    Rule(TRANSPARENT, "layer", r"Output$", shape="container", below=MLP),
    Rule("mlp.up", "layer", "", r"^(fc1|fc_in|pwconv1|lin(ear)?1|dense_h_to_4h|up_proj|ffn)$", shape="linear"),
    Rule("mlp.down", "layer", "", r"^(fc2|fc_out|pwconv2|lin(ear)?2|dense_4h_to_h|down_proj|ffn_output)$",
         "linear"),
    Rule("mlp.gate", "layer", "", r"^gate_proj$|_gate$", shape="linear"),
    Rule("convolution", "layer", r"Conv", shape="weighted", below=CONVOLUTION),
    # inside an attention
    Rule("attention.qkv", "attention", "", _QKV, shape="linear"),
    Rule("attention.query", "attention", "", _Q, shape="linear"),
    Rule("attention.key", "attention", "", _K, shape="linear"),
    Rule("attention.value", "attention", "", _V, shape="linear"),
    Rule("attention.output", "attention", "", _OUTPUT, shape="linear"),
    Rule("attention.output", "attention", "", r"^(gate|g_proj|gate_proj)$", "linear"),  # of what it returns
    Rule("embedding", "attention", "", r"relative|rel_pos|pos_\w*(bias|embed)", shape="weighted"),
    Rule(TRANSPARENT, "attention", shape="container", below=ATTENTION),
    # inside an MLP, or a mixture of experts
    Rule("router", "mlp", r"Router|TopK|Gating|Gate$", r"^(router|gate|wg)$", shape="weighted"),
    Rule("experts", "mlp", shape="bank"),
    Rule("experts", "mlp", r"Experts$", shape="container"),  # a pass calls those that its tokens choose
    Rule("mlp", "mlp", MLP_CLASSES, r"shared_(expert|mlp)", shape="container", below=MLP),
    Rule("mlp.up", "mlp", "", r"^(up_proj|fc1|dense_?1|c_fc|lin1|dense_h_to_4h|fc_in|w3|gate_up_proj|wi)$",
         "linear"),
    Rule("mlp.gate", "mlp", "", r"^(gate_proj|proj_up_gate|linear_fc1_gate)$", shape="linear"),
    Rule("mlp.down", "mlp", "", r"^(down_proj|fc2|dense_?2|lin2|dense_4h_to_h|fc_out|w2|c_proj|wo)$", "linear"),
    Rule("mlp.up", "mlp", shape="widening"),
    Rule("mlp.down", "mlp", shape="narrowing"),
    Rule("mlp.activation", "mlp layer", _ACTIVATION, r"^act(ivation)?(_fn)?$", shape="weightless"),
    Rule(TRANSPARENT, "mlp", shape="container", below=MLP),
    # inside another mixer: Mamba, linear attention, a recurrence
    Rule("mixer.convolution", "mixer", shape="convolution"),
    # kernels read the weights of these two, and do not call them
    Rule(UNDECLARED, "attention", shape="convolution"),
    Rule(UNDECLARED, "mixer", "", r"^dt_proj$", shape="linear"),
    Rule("mixer.projection", "mixer", shape="linear"),
    Rule(TRANSPARENT, "mixer", shape="container", below=MIXER),
)  # fmt: skip
