"""A ReLU behind a batch norm writes over what it reads, and needs no memory of its own.
After "Restructuring Batch Normalization to Accelerate CNN Training" (Jung et al., 2019), which
Daydream predicts (Zhu et al., 2020).

Batch norm's backward pass needs its input and not its result, so the result may be overwritten. The
paper also splits the norm and joins its parts with the neighbouring convolutions, which takes
kernels of one's own. Wrong where the ratio is typical rather than measured, and where memory that
is no longer touched speeds up other operators.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from paceline.cost.operators import OperatorClass, classes_of
from paceline.cost.variants import in_variant, typical_words
from paceline.graph import Graph, Phase
from paceline.graph.condense import Grain
from paceline.graph.graph import Bool
from paceline.graph.variants import Variant
from paceline.runtime.run import Run
from paceline.strategies.strategy import Strategy, StrategyError

_NORM, _RELU = "aten::native_batch_norm", "aten::clamp_min"


@dataclass(frozen=True)
class BatchnormRelu(Strategy):
    grain: ClassVar[Grain] = Grain.OP
    conflicts: ClassVar[frozenset[str]] = frozenset({"batchnorm_relu"})
    applies: ClassVar[bool] = True

    def transform(self, graph: Graph) -> Graph:
        return in_variant(graph, _rows(graph), Variant.IN_PLACE)

    def rests_on(self, graph: Graph) -> Iterator[str]:
        return typical_words(graph, _rows(graph), Variant.IN_PLACE)

    def apply(self, run: Run) -> AbstractContextManager[None]:
        from paceline.runtime.torch_in_place import relus_in_place

        return relus_in_place(run.model)


def _rows(graph: Graph) -> Bool:
    """ReLUs of the forward pass behind a batch norm."""
    ops, found = graph.ops, np.zeros(len(graph), np.bool_)
    forward = (ops.phase == Phase.FORWARD) & (classes_of(graph) != OperatorClass.OTHER)
    for lane in np.unique(ops.lane[forward]).tolist():
        rows = np.flatnonzero(forward & (ops.lane == lane))
        names = [graph.names[name] for name in ops.name[rows].tolist()]
        behind, before = False, ""
        for row, name in zip(rows.tolist(), names):
            behind = before == _NORM if name != before else behind
            found[row] = name == _RELU and behind
            before = name
    if not found.any():
        raise StrategyError(
            "no ReLU behind a batch norm is seen in this job, so none can write over its result; "
            "leave batchnorm_relu out"
        )
    return found
