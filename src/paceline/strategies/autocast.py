"""Products of matrices and convolutions in bfloat16, forward and backward; weights stay float32.
Micikevicius et al., "Mixed Precision Training" (2018); predicted by Daydream (Zhu et al., 2020).

What follows a product runs in bfloat16 too until something asks for float32; casts are part of the
products' measured time. Wrong where ratios are typical rather than measured (`paceline measure
--for RUN`), and where the order of casts is not that of residual networks and transformers.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from paceline.cost.operators import OperatorClass, classes_of, of_class
from paceline.cost.variants import in_variant, seen_in, typical_words
from paceline.graph import Graph, LaneKind, Phase
from paceline.graph.condense import Grain
from paceline.graph.graph import Bool
from paceline.graph.variants import Variant
from paceline.runtime.run import Run
from paceline.strategies.strategy import Effect, Strategy, StrategyError

_LOWERED = (OperatorClass.PRODUCT, OperatorClass.CONVOLUTION, OperatorClass.ATTENTION)


@dataclass(frozen=True)
class Autocast(Strategy):
    grain: ClassVar[Grain] = Grain.OP
    effect: ClassVar[Effect] = Effect.LOSSY
    conflicts: ClassVar[frozenset[str]] = frozenset({"autocast"})
    applies: ClassVar[bool] = True

    def transform(self, graph: Graph) -> Graph:
        return in_variant(graph, _rows(graph), Variant.BF16)

    def rests_on(self, graph: Graph) -> Iterator[str]:
        return typical_words(graph, _rows(graph), Variant.BF16)

    def apply(self, run: Run) -> AbstractContextManager[None]:
        from paceline.runtime.torch_forward import forward_as

        return forward_as(run.model, _lowered(run.model))


def _rows(graph: Graph) -> Bool:
    """Of forward and backward: a device's kernels; products, and operators that a measurement of
    the job saw, or all of a known class where there was none."""
    passes = np.isin(graph.ops.phase, (Phase.FORWARD, Phase.BACKWARD))
    if not (passes & of_class(graph, *_LOWERED)).any():
        raise StrategyError(
            "no product of matrices, convolution or attention is seen in this job, and autocast "
            "speeds up nothing else. Record it with `paceline record`, which names operators"
        )
    streams = graph.lanes.kind[graph.ops.lane] == LaneKind.STREAM
    seen = seen_in(graph, Variant.BF16)
    others = seen if seen.any() else classes_of(graph) != OperatorClass.OTHER
    found: Bool = passes & (streams | of_class(graph, *_LOWERED) | others)
    return found


def _lowered(model: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Forward under autocast; its results leave it in float32, as losses want them."""
    import torch

    device = next(model.parameters()).device.type

    def restored(value: Any) -> Any:
        low = isinstance(value, torch.Tensor) and value.dtype is torch.bfloat16
        return value.float() if low else value

    def wrapped(forward: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            with torch.autocast(device, torch.bfloat16):
                results = forward(*given, **named)
            return torch.utils._pytree.tree_map(restored, results)

        return run

    return wrapped
