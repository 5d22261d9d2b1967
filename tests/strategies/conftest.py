"""A recording of data-parallel training, small enough to be checked by hand."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pytest

from paceline.graph import Axis, Collective, DepKind, Graph, GraphBuilder, LaneKind, OpKind, Phase
from paceline.graph.facts import Facts, Parameter

SIZES = {"a": 100, "b": 200, "c": 300}


@dataclass(frozen=True)
class TinyJob:
    """Two ranks; a step is forward, the gradients of c, b and a, two buckets, and an update."""

    forward_ns: Sequence[int] = (100, 120, 110)  # by step
    plain_step_ns: int = 0
    reduce_ns: int = 50
    buckets: ClassVar = (("c", "b"), ("a",))
    backward_ns: ClassVar = {"c": 40, "b": 30, "a": 20}
    copies_ns: ClassVar = (6, 4)
    update_ns: ClassVar = 10

    def graph(self) -> Graph:
        parameters = tuple(Parameter(name, size) for name, size in SIZES.items())
        facts = Facts(world_size=2, parameters=parameters, plain_step_ns=self.plain_step_ns)
        b = GraphBuilder(facts=facts)
        group = b.group("replicas", (0, 1), Axis.DATA)
        steps = range(len(self.forward_ns))
        instances = {(step, i): b.instance() for step in steps for i in range(2)}
        for rank in range(2):
            thread, link = b.lane(rank), b.lane(rank, "gloo", kind=LaneKind.COMM_THREAD)
            for step in steps:
                mine = (instances[step, 0], instances[step, 1])
                self._step(b, _Place(thread, link, group, step), mine)
        return b.build()

    def _step(self, b: GraphBuilder, at: "_Place", instances: tuple[int, int]) -> None:
        step = at.step
        b.op("forward", at.thread, self.forward_ns[step], phase=Phase.FORWARD, step=step)
        ready = dict(self._backward(b, at))
        calls = [
            b.op("all-reduce", at.link, self.reduce_ns, kind=OpKind.COLLECTIVE, group=at.group,
                 collective=Collective.ALL_REDUCE, instance=instance, step=step,
                 size_bytes=sum(SIZES[name] for name in bucket), phase=Phase.BACKWARD)
            for bucket, instance in zip(self.buckets, instances)
        ]  # fmt: skip
        for bucket, call in zip(self.buckets, calls):
            for name in bucket:
                b.link(ready[name], call, DepKind.GRADIENT)
        self._end(b, at, calls)

    def _backward(self, b: GraphBuilder, at: "_Place") -> Iterator[tuple[str, int]]:
        for name, took in self.backward_ns.items():
            yield name, b.op(f"backward {name}", at.thread, took, phase=Phase.BACKWARD,
                             tensor=name, step=at.step)  # fmt: skip

    def _end(self, b: GraphBuilder, at: "_Place", calls: list[int]) -> None:
        for call, took in zip(calls, self.copies_ns):
            b.op("wait", at.thread, 0, kind=OpKind.WAIT, phase=Phase.BACKWARD, step=at.step,
                 after=[call], dep=DepKind.WAIT)  # fmt: skip
            b.op("copy", at.thread, took, phase=Phase.BACKWARD, step=at.step)
        b.op("update", at.thread, self.update_ns, phase=Phase.UPDATE, step=at.step)


@dataclass(frozen=True)
class _Place:
    """Where ops of one rank and step go."""

    thread: int
    link: int
    group: int
    step: int


@pytest.fixture
def tiny_job() -> type[TinyJob]:
    return TinyJob
