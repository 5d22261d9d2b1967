"""Language models of today by their dimensions: data files, what each rank does, what it holds.

job = DecoderJob(decoder("llama3-70b"), Degrees(data=2, tensor=4, pipeline=8), Recipe(128))
fullest(job).total                      # bytes on the fullest rank
Operators(job).forward(routed=False)    # one layer's products, passes and exchanges
"""

from paceline.imagine.decoder.files import decoder, from_document, shipped
from paceline.imagine.decoder.habits import (
    EARLY_MEGATRON,
    HABITS,
    MEGATRON,
    PROCESSOR_BYTES,
    TORCH,
    TORCHTITAN,
    TORCHTITAN_COMPILED,
    Fusion,
    Habits,
    Precision,
    Selective,
)
from paceline.imagine.decoder.job import Content, DecoderJob, Recipe, Sharding, WeightShare
from paceline.imagine.decoder.memory import RankPeak, fullest, kept_bytes, peaks
from paceline.imagine.decoder.model import (
    Cut,
    Decoder,
    Experts,
    GroupedQuery,
    Latent,
    Linear,
    Routing,
)
from paceline.imagine.decoder.operators import Operators
from paceline.imagine.decoder.parts import (
    AxisCollective,
    Core,
    Operator,
    Passes,
    Product,
    launches,
)
from paceline.imagine.decoder.routing import read_routing, routed

__all__ = [
    "EARLY_MEGATRON",
    "HABITS",
    "MEGATRON",
    "PROCESSOR_BYTES",
    "TORCH",
    "TORCHTITAN",
    "TORCHTITAN_COMPILED",
    "AxisCollective",
    "Content",
    "Core",
    "Cut",
    "Decoder",
    "DecoderJob",
    "Experts",
    "Fusion",
    "GroupedQuery",
    "Habits",
    "Latent",
    "Linear",
    "Operator",
    "Operators",
    "Passes",
    "Precision",
    "Product",
    "RankPeak",
    "Recipe",
    "Routing",
    "Selective",
    "Sharding",
    "WeightShare",
    "decoder",
    "from_document",
    "fullest",
    "kept_bytes",
    "launches",
    "peaks",
    "read_routing",
    "routed",
    "shipped",
]
