"""Programs that ship: one idea a file."""

from paceline.weave.programs.adam import adam, adamw
from paceline.weave.programs.clip import clipped, gradient_mean, gradient_norm
from paceline.weave.programs.lamb import lamb
from paceline.weave.programs.megatron import mlp, self_attention
from paceline.weave.programs.pipeline import hand_over, sliced_hand_over
from paceline.weave.programs.sgd import sgd

__all__ = [
    "adam",
    "adamw",
    "clipped",
    "gradient_mean",
    "gradient_norm",
    "hand_over",
    "lamb",
    "mlp",
    "self_attention",
    "sgd",
    "sliced_hand_over",
]
