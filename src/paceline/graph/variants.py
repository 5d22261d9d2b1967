"""Other ways of running an operator, and how long it then takes against the recorded way."""

from dataclasses import dataclass
from enum import Enum


class Variant(Enum):
    """How an operator runs; the value is the file format."""

    ADDED = "added"  # a weight's gradient, summed with that of another pass
    BF16 = "bf16"  # inputs and result in bfloat16, its casts included
    CHANNELS_LAST = "channels_last"  # images with their channels innermost
    CIRCULANT = "circulant"  # a layer's pass with weights of circulant blocks
    COMPILED = "compiled"  # generated together with its neighbours
    FUSED = "fused"  # a whole optimizer as one operator
    HALVED = "halved"  # on half of the samples
    IN_PLACE = "in_place"  # the result over the input
    MERGED = "merged"  # three products of one input as one
    RESTRUCTURED = "restructured"  # a batch norm together with the ReLU behind it


@dataclass(frozen=True)
class Ratio:
    """Measured: the time of an operator in a variant as a multiple of its recorded way."""

    operator: str  # as traces call it: aten::addmm; an optimizer or a layer by its class: Adam,
    # Linear, and Linear backward for its backward pass
    variant: Variant
    value: float
    low: float
    high: float
