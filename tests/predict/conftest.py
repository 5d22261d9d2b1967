"""Small recordings, drawn by hand, which the tests of predictions share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from paceline.graph import (
    Axis,
    Collective,
    DepKind,
    DType,
    Facts,
    Graph,
    GraphBuilder,
    LaneKind,
    OpKind,
    Parameter,
    Phase,
    check,
)

MS = 1_000_000


@dataclass(frozen=True)
class Drawn:
    """A step of two workers: forward, a gradient, its all-reduce beside `beside_ns`, the update."""

    forward_ns: int = 10 * MS
    backward_ns: int = 20 * MS
    beside_ns: int = 0  # backward work behind the hand-over
    update_ns: int = 5 * MS
    size_bytes: int = 12_500_000
    talk_ns: int = 60 * MS
    factors: Sequence[float] = (1.0,)  # of each step's work
    plain_step_ns: int = 0

    def graph(self) -> Graph:
        facts = Facts(2, (Parameter("w", self.size_bytes),), plain_step_ns=self.plain_step_ns)
        b = GraphBuilder(facts=facts)
        group = b.group("0", (0, 1), Axis.DATA)
        lanes = [(b.lane(r, "main"), b.lane(r, "gloo", kind=LaneKind.COMM_THREAD)) for r in (0, 1)]
        for step, factor in enumerate(self.factors):
            instance = b.instance()
            for main, gloo in lanes:
                self._step(b, (main, gloo), step, factor, {"group": group, "instance": instance})
        return check(b.build())

    def _step(
        self, b: GraphBuilder, lanes: tuple[int, int], step: int, factor: float, who: dict[str, int]
    ) -> None:
        def work(name: str, dur_ns: int, phase: Phase, tensor: str = "") -> int:
            dur = round(dur_ns * factor)
            return b.op(name, lanes[0], dur, phase=phase, step=step, tensor=tensor)

        work("addmm", self.forward_ns, Phase.FORWARD)
        ready = work("mm", self.backward_ns, Phase.BACKWARD, "w")
        asked = b.op("c10d", lanes[0], kind=OpKind.HOST, phase=Phase.COMMUNICATION, step=step)
        sent = b.op(
            "gloo:all_reduce", lanes[1], self.talk_ns, after=[asked], dep=DepKind.LAUNCH,
            kind=OpKind.COLLECTIVE, phase=Phase.COMMUNICATION, collective=Collective.ALL_REDUCE,
            dtype=DType.FLOAT32, size_bytes=self.size_bytes, step=step, **who,
        )  # fmt: skip
        b.link(ready, sent, DepKind.GRADIENT)
        if self.beside_ns:
            work("mm beside", self.beside_ns, Phase.BACKWARD)
        b.op("wait", lanes[0], after=[sent], dep=DepKind.WAIT, kind=OpKind.WAIT, step=step)
        work("sgd", self.update_ns, Phase.UPDATE)


@pytest.fixture
def job() -> Callable[..., Graph]:
    """Draws a job of two workers with these settings of `Drawn`."""
    return lambda **settings: Drawn(**settings).graph()
