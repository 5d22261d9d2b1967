"""A small data-parallel job drawn by hand, of which every part can be made slower."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from paceline.compare import Side, side_of_graph
from paceline.compare.noise import Steps
from paceline.graph import Collective, DepKind, Graph, GraphBuilder, LaneKind, OpKind, Phase
from paceline.graph.facts import Facts, Parameter, RankMemory

STEPS = 6


@dataclass(frozen=True)
class Job:
    """Times in us: by layer its forward work, the same backward."""

    layers: dict[str, float] = field(default_factory=lambda: {"one": 100.0, "two": 200.0})
    late: dict[tuple[int, str], float] = field(default_factory=dict)  # more, on a rank in a layer
    operator: str = "aten::addmm"
    update: str = "aten::add_"
    update_us: float = 50.0
    input_us: float = 10.0
    core_us: float = 0.0
    messages: int = 1
    message_us: float = 300.0  # of all messages of a step together
    sent_bytes: int = 1_200_000
    batch_bytes: int = 1024
    ranks: int = 2

    def graph(self) -> Graph:
        weights = tuple(Parameter(f"{layer}.weight", 4) for layer in self.layers)
        memory = tuple(RankMemory(rank, other=self.batch_bytes) for rank in range(self.ranks))
        b = GraphBuilder(facts=Facts(self.ranks, weights, memory=memory))
        everyone = tuple(range(self.ranks))
        group = b.group("world", everyone)
        main = [b.lane(rank, "main thread") for rank in everyone]
        wire = [b.lane(rank, "gloo", kind=LaneKind.COMM_THREAD) for rank in everyone]
        for step in range(STEPS):
            met = [b.instance() for _ in range(self.messages)]
            for rank in everyone:
                self._step(b, rank, main[rank], wire[rank], group, step, met)
        return b.build()

    def _step(
        self, b: GraphBuilder, rank: int, lane: int, wire: int, group: int, step: int,
        met: list[int],
    ) -> None:  # fmt: skip
        def op(name: str, us: float, phase: Phase, **given: object) -> int:
            ns = round(1e3 * us) + 7 * ((step * 3 + rank) % 5)  # steps are not all alike
            return b.op(name, lane, ns, phase=phase, step=step, **given)

        op("next", self.input_us, Phase.DATA, kind=OpKind.DATA)
        if self.core_us:
            op("waiting for a core", self.core_us, Phase.FORWARD, kind=OpKind.CORE_WAIT)
        last = 0
        for phase in (Phase.FORWARD, Phase.BACKWARD):
            for layer, us in self.layers.items():
                extra = self.late.get((rank, layer), 0.0) if phase is Phase.FORWARD else 0.0
                last = op(self.operator, us + extra, phase, layer=layer)
        sent = [
            b.op(
                "all_reduce", wire, round(1e3 * self.message_us / self.messages),
                kind=OpKind.COLLECTIVE, collective=Collective.ALL_REDUCE, group=group,
                instance=instance, phase=Phase.COMMUNICATION, step=step,
                size_bytes=self.sent_bytes // self.messages, after=[last],
            )
            for instance in met
        ]  # fmt: skip
        b.op(
            self.update, lane, round(1e3 * self.update_us) + 7 * (step % 3), phase=Phase.UPDATE,
            step=step, after=sent[-1:], dep=DepKind.WAIT,
        )  # fmt: skip


@pytest.fixture
def side() -> Callable[..., Side]:
    """A job as a side, changed as named; stretches are its plain steps in ns, without which the
    recorded ones count."""

    def made(*stretches: tuple[int, ...], name: str = "run", **changes: Any) -> Side:
        steps = Steps(stretches) if stretches else None
        return side_of_graph(Job(**changes).graph(), name, steps)

    return made
