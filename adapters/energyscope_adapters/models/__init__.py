"""Short names of models without an adapter of their own: the adapter of their type serves them, or structure.

Their configurations are as published, so that ``--weights random`` builds the true shape.
"""

from __future__ import annotations

from collections.abc import Mapping

from energyscope.adapters import Checkpoint
from energyscope_adapters.models.decoders import DECODERS
from energyscope_adapters.models.encoder_decoders import ENCODER_DECODERS
from energyscope_adapters.models.encoders import ENCODERS
from energyscope_adapters.models.experts import EXPERTS
from energyscope_adapters.models.images import IMAGES
from energyscope_adapters.models.state_spaces import STATE_SPACES

MODELS: Mapping[str, Checkpoint] = ENCODERS | DECODERS | EXPERTS | STATE_SPACES | ENCODER_DECODERS | IMAGES
