"""Products of matrices and convolutions in bfloat16, forward and backward; weights stay float32.
Micikevicius et al., "Mixed Precision Training" (2018); predicted by Daydream (Zhu et al., 2020).

What follows a product runs in bfloat16 too until something asks for float32; casts are part of the
products' measured time. What a recording shows to run in 16 bits already stays as it is, and a job
whose products all do is refused. Wrong where ratios are typical rather than measured (`paceline
measure --for RUN`), and where the order of casts is not that of residual networks and transformers.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from paceline.cost.operators import OperatorClass, classes_of, of_class
from paceline.cost.ported import PRODUCTS
from paceline.cost.variants import in_variant, seen_in, typical_words
from paceline.graph import DType, Graph, LaneKind, Phase
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
        yield from typical_words(graph, _rows(graph), Variant.BF16)
        kept = _passes(graph) & _low(graph)
        if kept.any():
            took = graph.ops.dur_ns[kept].sum() / 1e6
            yield f"autocast: {kept.sum()} ops of {took:,.3g} ms run in 16 bits already, and stay"

    def apply(self, run: Run) -> AbstractContextManager[None]:
        from paceline.runtime.torch_forward import forward_as

        return forward_as(run.model, _lowered(run.model))


def _rows(graph: Graph) -> Bool:
    """Of forward and backward, in more than 16 bits: a device's kernels; products, and operators
    that a measurement of the job saw, or all of a known class where there was none."""
    products = _passes(graph) & (of_class(graph, *_LOWERED) | _by_work(graph))
    if not products.any():
        raise StrategyError(
            "no product of matrices, convolution or attention is seen in this job, and autocast "
            "speeds up nothing else. Record it with `paceline record`, which names operators"
        )
    _refuse_if_low(graph, products)
    streams = graph.lanes.kind[graph.ops.lane] == LaneKind.STREAM
    seen = seen_in(graph, Variant.BF16)
    others = seen if seen.any() else classes_of(graph) != OperatorClass.OTHER
    found: Bool = _passes(graph) & ~_low(graph) & (streams | products | others)
    return found


def _by_work(graph: Graph) -> Bool:
    """Kernels whose call tells that they multiply, whatever their library calls them."""
    known = [each.work.family in PRODUCTS for each in graph.works]
    found: Bool = np.array([*known, False], np.bool_)[graph.ops.work]
    return found


def _passes(graph: Graph) -> Bool:
    found: Bool = np.isin(graph.ops.phase, (Phase.FORWARD, Phase.BACKWARD))
    return found


def _low(graph: Graph) -> Bool:
    """Work in types that autocast would not make narrower."""
    found: Bool = np.isin(graph.ops.dtype, _LOW)
    return found


_LOW = (DType.BFLOAT16, DType.FLOAT16, DType.FLOAT8, DType.FLOAT4, DType.INT8)
_LEFT = 0.02
"""Less of the products' time than this is no float32 job: a model in bfloat16 that works out a few
angles in float32, whose float32 autocast leaves alone."""


def _refuse_if_low(graph: Graph, products: Bool) -> None:
    streams = graph.lanes.kind[graph.ops.lane] == LaneKind.STREAM
    products = products & streams if (products & streams).any() else products  # not their launches
    took, low = graph.ops.dur_ns[products], _low(graph)[products]
    if took[~low].sum() <= _LEFT * took.sum() and low.any():
        types = np.unique(graph.ops.dtype[products & _low(graph)]).tolist()
        raise StrategyError(
            f"the products of this job run in {', '.join(DType(t).name.lower() for t in types)} "
            f"already ({took[low].sum() / took.sum():.1%} of their time), so autocast has nothing "
            "to make narrower. Leave it away, or record the job in float32"
        )


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
