"""Language models by their `config.json`: every operator of a forward and a backward pass.

model = language(json.loads(path.read_text()))
works = forward(model, Pass(batch=8, seq=512))
works += backward(works)
"""

from paceline.imagine.language.backward import backward, backward_of
from paceline.imagine.language.config import Language, language
from paceline.imagine.language.eager import Pass, ending, forward, layer
from paceline.imagine.language.fused import fused
from paceline.imagine.language.parallel import (
    GpuSplit,
    GpuStep,
    RepeatedCollective,
    parameters,
    split_of,
    step,
)

__all__ = [
    "GpuSplit",
    "GpuStep",
    "Language",
    "Pass",
    "RepeatedCollective",
    "backward",
    "backward_of",
    "ending",
    "forward",
    "fused",
    "language",
    "layer",
    "parameters",
    "split_of",
    "step",
]
