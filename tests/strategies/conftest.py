"""One small recording, drawn by hand, which the tests of the changes share."""

from collections.abc import Callable
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


@dataclass(frozen=True)
class Drawn:
    """What each op takes, and what the gradients hold."""

    forward: int = 300
    backward: int = 200  # of each gradient
    copy: int = 40
    update: int = 60
    talk: int = 1000
    first_bytes: int = 400  # ready first
    second_bytes: int = 600

    @property
    def work(self) -> int:
        return self.forward + 2 * self.backward + self.copy + self.update

    def facts(self, ranks: int) -> Facts:
        sizes = (Parameter("w1", self.second_bytes), Parameter("w2", self.first_bytes))
        return Facts(world_size=ranks, parameters=sizes, buckets=(("w2", "w1"),))


Recording = Callable[..., Graph]


@pytest.fixture
def drawn() -> Drawn:
    return Drawn()


@pytest.fixture
def recording(drawn: Drawn) -> Recording:
    def draw(ranks: int = 2, *, told: bool = True, unseen: int = 0) -> Graph:
        """Forward, backward of w2 and of w1, one bucket of both, its wait, copying back, update.
        Without `told` nothing is known of gradients. For `unseen` ns the thread copies before it
        waits."""
        b = GraphBuilder(facts=drawn.facts(ranks) if told else Facts(world_size=ranks))
        group, instance = b.group("0", range(ranks), Axis.DATA), b.instance()
        for rank in range(ranks):
            main = b.lane(rank, "main")
            gloo = b.lane(rank, "gloo", kind=LaneKind.COMM_THREAD)
            b.op("addmm", main, drawn.forward, phase=Phase.FORWARD)
            ready = [
                b.op("mm", main, drawn.backward, phase=Phase.BACKWARD, tensor=name)
                for name in ("w2", "w1")
            ]
            asked = b.op("c10d", main, kind=OpKind.HOST, phase=Phase.COMMUNICATION)
            sent = b.op(
                "gloo:all_reduce", gloo, drawn.talk, after=[asked], dep=DepKind.LAUNCH,
                kind=OpKind.COLLECTIVE, phase=Phase.COMMUNICATION, group=group, instance=instance,
                collective=Collective.ALL_REDUCE, dtype=DType.FLOAT32,
                size_bytes=drawn.first_bytes + drawn.second_bytes,
            )  # fmt: skip
            for op in ready if told else ():
                b.link(op, sent, DepKind.GRADIENT)
            if unseen:
                b.op("between ops", main, unseen, kind=OpKind.HOST, phase=Phase.BACKWARD)
            b.op("wait", main, after=[sent], dep=DepKind.WAIT, kind=OpKind.WAIT)
            b.op("copy", main, drawn.copy, phase=Phase.BACKWARD)
            b.op("sgd", main, drawn.update, phase=Phase.UPDATE)
        return check(b.build())

    return draw
