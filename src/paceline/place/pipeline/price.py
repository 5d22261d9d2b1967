"""A plan's price twice: by the published formula, and as `predict` finds it for the plan's graph.

Alone (`price`), with all stages on the cores of one machine (`price_on_cores`), or where those
workers talk over a cluster's shaped links, as they do in the lab (`price_in_lab`). The three differ
in what is drawn and asked, not in who answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.cluster import Cluster
from paceline.cluster.machine import Machine
from paceline.cluster.network import Network
from paceline.graph import LaneKind
from paceline.place.pipeline.draw import draw
from paceline.place.pipeline.formulas import PipelinePlan, Wires, memory_bytes, step_ns
from paceline.place.pipeline.profile import LayerCost
from paceline.predict import Prediction, Question, predict

BATCHES = 4
"""Drawn: 2BW never flushes, so its step is the time between updates once the pipe is full."""


@dataclass(frozen=True)
class Priced:
    """What a plan costs. Memory is that of the fullest device."""

    plan: PipelinePlan
    formula_step_ns: int
    formula_memory_bytes: int
    prediction: Prediction

    @property
    def replayed_step_ns(self) -> int:
        return self.prediction.step_ns

    @property
    def replayed_memory_bytes(self) -> int:
        return max(curve.peak_bytes for curve in self.prediction.timeline.memory)

    @property
    def formula_per_s(self) -> float:
        """Samples a second."""
        return self.plan.global_batch * 1e9 / self.formula_step_ns

    @property
    def replayed_per_s(self) -> float:
        return self.plan.global_batch * 1e9 / self.replayed_step_ns


def price(plan: PipelinePlan, stages: Sequence[LayerCost], wires: Wires) -> Priced:
    """Both prices of a plan whose stages have these costs."""
    return _priced(plan, stages, wires, predict(draw(plan, stages, wires, BATCHES)))


def price_on_cores(
    plan: PipelinePlan,
    stages: Sequence[LayerCost],
    wires: Wires,
    machine: Machine,
    batches: int = BATCHES,
) -> Priced:
    """The same where all stages are processes that share the cores of one machine, of which only
    these and what a rest costs matter: messages are those of `wires`."""
    graph = draw(plan, stages, wires, batches, lane=LaneKind.THREAD)
    return _priced(plan, stages, wires, predict(graph, question=Question(machine)))


def price_in_lab(
    plan: PipelinePlan,
    stages: Sequence[LayerCost],
    cluster: Cluster,
    machine: Machine,
    batches: int = BATCHES,
) -> Priced:
    """The same where every stage is a worker of the lab that this cluster describes."""
    rate = min(link.bytes_per_s for link in Network(cluster).links)
    wires = Wires(
        rate,
        rate,
        round(machine.message_ns),
        asked=True,
        send_ns_per_byte=machine.send_ns_per_byte,
    )
    graph = draw(plan, stages, wires, batches, lane=LaneKind.THREAD)
    question = Question(machine, shaped_links=True)
    return _priced(plan, stages, wires, predict(graph, (), cluster, question))


def _priced(
    plan: PipelinePlan, stages: Sequence[LayerCost], wires: Wires, found: Prediction
) -> Priced:
    formula_ns = step_ns(plan, stages, wires)
    return Priced(plan, formula_ns, max(memory_bytes(plan, stages)), found)
