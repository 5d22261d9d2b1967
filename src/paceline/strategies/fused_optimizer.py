"""One kernel for the whole update, in place of several for each parameter: torch's `fused=True`.
Daydream's FusedAdam (Zhu et al., ATC 2020).

Weights, gradients and state are read and written once. Predicted as the recorded update times the
ratio of both that was measured on parameters of these sizes. Wrong where that was not measured
(`paceline measure --for RUN`): then the update is left as long as it was.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import ClassVar

from paceline.cost.variants import ratios_of
from paceline.graph import Basis, Graph, Phase
from paceline.graph.facts import Optimizer
from paceline.graph.graph import Bool
from paceline.graph.scaled import scaled, works
from paceline.graph.variants import Variant
from paceline.runtime.run import Run
from paceline.strategies.strategy import Strategy, StrategyError

KINDS = ("SGD", "Adam", "AdamW", "Adagrad")


@dataclass(frozen=True)
class FusedOptimizer(Strategy):
    conflicts: ClassVar[frozenset[str]] = frozenset({"fused_optimizer", "fused_step"})
    follows: ClassVar[frozenset[str]] = frozenset({"remodelling"})
    applies: ClassVar[bool] = True

    def transform(self, graph: Graph) -> Graph:
        optimizer, rows = _unfused(graph), _update(graph)
        ratio = ratios_of(graph, Variant.FUSED).get(optimizer.kind)
        made = (
            scaled(graph, rows, 1.0, Basis.DATASHEET)
            if ratio is None
            else scaled(graph, rows, ratio.value, Basis.MEASURED)
        )
        facts = replace(graph.facts, optimizer=replace(optimizer, fused=True))
        return replace(made, facts=facts)

    def rests_on(self, graph: Graph) -> Iterator[str]:
        told = graph.facts.optimizer
        if told is not None and told.kind not in ratios_of(graph, Variant.FUSED):
            yield (
                f"the fused {told.kind} was not measured here, so the update is left as it was; "
                "run `paceline measure --for RUN --out FILE`, and predict with --calibration FILE"
            )

    def apply(self, run: Run) -> AbstractContextManager[None]:
        from paceline.runtime.torch_fused import fused

        return fused(run.optimizer)


def _update(graph: Graph) -> Bool:
    rows: Bool = works(graph) & (graph.ops.phase == Phase.UPDATE)
    if not rows.any():
        raise StrategyError(
            "no op of this job updates parameters, so there is nothing to fuse. Record it with "
            "`paceline record`, which marks the optimizer's step"
        )
    return rows


def _unfused(graph: Graph) -> Optimizer:
    """The optimizer, where torch has a fused implementation of it that the job does not use."""
    told = graph.facts.optimizer
    if told is None:
        raise StrategyError(
            "the recording does not say which optimizer the job has; record it anew with "
            "`paceline record`"
        )
    if told.kind not in KINDS:
        raise StrategyError(
            f"torch has no fused {told.kind}; it has one of {', '.join(KINDS)}. Leave "
            "fused_optimizer out"
        )
    if told.fused:
        raise StrategyError(f"the job's {told.kind} is fused already; leave fused_optimizer out")
    return told
