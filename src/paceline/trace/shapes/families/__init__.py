"""What each operator's recorded inputs mean: one file per family, one table of them all."""

from collections.abc import Callable, Mapping
from typing import Final

from paceline.graph.work import Work
from paceline.trace.shapes.families import (
    attention,
    convolution,
    copies,
    embedding,
    losses,
    matrix,
    normalisation,
    optimizers,
    pointwise,
    pooling,
    reduction,
    softmax,
    sorting,
)
from paceline.trace.shapes.inputs import Inputs

Rule = Callable[[Inputs], Work]

RULES: Final[Mapping[str, Rule]] = {
    name: rule
    for family in (
        pointwise,
        reduction,
        sorting,
        copies,
        embedding,
        pooling,
        losses,
        softmax,
        normalisation,
        optimizers,
        convolution,
        attention,
        matrix,
    )
    for name, rule in family.RULES.items()
}
"""By an operator's whole name."""
