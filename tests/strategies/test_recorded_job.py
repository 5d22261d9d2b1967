"""Changes of a recorded data-parallel job do to its graph what they say.

A recorded step, by hand: gradients are ready at 140, 170 and 190 ns, the buckets are reduced from
170 to 220 and from 220 to 270, and behind the last wait come a copy of 4 ns and an update of 10.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from paceline.errors import GraphError
from paceline.graph import (
    UNPRICED,
    Axis,
    Collective,
    DepKind,
    Graph,
    GraphBuilder,
    LaneKind,
    OpKind,
    Phase,
    check,
    select,
)
from paceline.graph.facts import Facts, Parameter
from paceline.graph.links import Links
from paceline.predict import predict
from paceline.strategies import parse
from paceline.strategies.buckets import Buckets, buckets_of
from paceline.strategies.strategy import StrategyError

TINY_BYTES = {"a": 100, "b": 200, "c": 300}


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
        parameters = tuple(Parameter(name, size) for name, size in TINY_BYTES.items())
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
                 size_bytes=sum(TINY_BYTES[name] for name in bucket), phase=Phase.BACKWARD)
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


ORDER, SIZES = (2, 1, 0), (100, 200, 300)


@pytest.fixture
def graph(tiny_job: Any) -> Graph:
    made = tiny_job(forward_ns=(100,)).graph()
    assert isinstance(made, Graph)
    return made


def changed(graph: Graph, change: str) -> Graph:
    return check(parse(change).transform(graph))


def reduces(graph: Graph) -> list[int]:
    """Sizes of what rank 0 reduces, in order."""
    rows = (graph.ops.kind == OpKind.COLLECTIVE) & (graph.ops.rank == 0)
    return graph.ops.size_bytes[rows].tolist()


def leading_to(graph: Graph, selection: str, kind: DepKind) -> list[int]:
    """Ops of rank 0 that the first selected one waits for."""
    links, op = Links.of(graph), int(select(graph, f"rank=0,{selection}")[0])
    return links.src[(links.op == op) & (links.kind == kind)].tolist()


def test_the_recorded_step_is_the_one_drawn_by_hand(graph: Graph) -> None:
    assert predict(graph).step_ns == 284


def test_a_bucket_is_closed_by_the_gradient_that_reaches_the_limit() -> None:
    assert buckets_of(ORDER, SIZES, Buckets(300)) == ((2,), (1, 0))
    assert buckets_of(ORDER, SIZES, Buckets(301)) == ((2, 1), (0,))
    assert buckets_of(ORDER, SIZES, Buckets(200)) == ((2,), (1,), (0,))
    assert buckets_of(ORDER, SIZES, Buckets(100)) == ((2,), (1,), (0,))


def test_only_the_first_bucket_has_the_first_limit() -> None:
    assert buckets_of(ORDER, SIZES, Buckets(1000, 300)) == ((2,), (1, 0))
    assert buckets_of(ORDER, SIZES, Buckets(1000, 0)) == ((2, 1, 0),)


@pytest.mark.parametrize("asked", [(0, 0), (-1, 0), (1, -1)])
def test_buckets_without_a_size_are_refused(asked: tuple[int, int]) -> None:
    with pytest.raises(StrategyError, match="give more than 0"):
        Buckets(*asked)


def test_a_bucket_of_one_byte_is_allowed() -> None:
    assert Buckets(1).size_bytes == 1


def test_new_buckets_hold_the_gradients_in_the_order_they_are_ready(graph: Graph) -> None:
    assert reduces(changed(graph, "buckets(size_bytes=300)")) == [300, 300]
    assert reduces(changed(graph, "buckets(size_bytes=1000)")) == [600]


def test_a_new_bucket_waits_for_each_of_its_gradients(graph: Graph) -> None:
    found = changed(graph, "buckets(size_bytes=1000)")
    waited = {found.names[found.ops.tensor[op]] for op in np.unique(_ready(found))}
    assert waited == {"a", "b", "c"}


def _ready(graph: Graph) -> list[int]:
    given = leading_to(graph, "kind=collective", DepKind.GRADIENT)
    return given + leading_to(graph, "kind=collective", DepKind.LAUNCH)


def test_copies_of_new_buckets_take_what_the_old_ones_took_by_their_bytes(graph: Graph) -> None:
    found = changed(graph, "buckets(size_bytes=100)").ops
    waits = np.flatnonzero((found.rank == 0) & (found.kind == OpKind.WAIT))
    assert found.dur_ns[waits].tolist() == [0, 0, 0]
    assert found.dur_ns[waits + 1].tolist() == [5, 3, 2]


def test_the_update_waits_for_every_new_bucket(graph: Graph) -> None:
    found = changed(graph, "buckets(size_bytes=100)")
    assert len(leading_to(found, "name=update", DepKind.GRADIENT)) == 3


def test_new_buckets_of_all_ranks_and_steps_meet(tiny_job: Any) -> None:
    found = changed(tiny_job().graph(), "buckets(size_bytes=300)").ops
    talks = found.kind == OpKind.COLLECTIVE
    met = found.instance[talks]
    assert np.unique(met, return_counts=True)[1].tolist() == [2] * 6
    assert len({*zip(found.step[talks].tolist(), met.tolist())}) == 6


def test_a_job_that_reduces_no_gradients_has_no_buckets_to_change() -> None:
    b = GraphBuilder()
    b.op("mm", b.lane(), 5)
    for change in ("buckets(size_bytes=9)", "parameter_server"):
        with pytest.raises(GraphError, match="Record a job under DDP"):
            parse(change).transform(b.build())


def test_servers_are_sent_each_bucket_and_give_back_as_much(graph: Graph) -> None:
    found = changed(graph, "parameter_server").ops
    mine = (found.kind == OpKind.COLLECTIVE) & (found.rank == 0)
    assert found.collective[mine].tolist() == [Collective.PUSH, Collective.PULL] * 2
    assert found.size_bytes[mine].tolist() == [500, 500, 100, 100]
    assert (found.dur_ns[mine] == UNPRICED).all()
    assert len(np.unique(found.instance[mine])) == 4


def test_who_waited_for_a_bucket_waits_for_its_pull(graph: Graph) -> None:
    found = changed(graph, "parameter_server")
    waited = leading_to(found, "kind=wait", DepKind.WAIT)
    assert found.ops.collective[waited].tolist() == [Collective.PULL]


def test_work_but_neither_copies_nor_the_update_grow_with_the_batch(graph: Graph) -> None:
    before, after = graph.ops, changed(graph, "batch(factor=2)").ops
    for kept in ("name=update", "name=copy"):
        rows = select(graph, kept)
        assert (after.dur_ns[rows] == before.dur_ns[rows]).all()
    for work in ("phase=forward", "tensor=a"):
        rows = select(graph, work)
        assert (after.dur_ns[rows] == 2 * before.dur_ns[rows]).all()
    assert reduces(changed(graph, "batch(factor=2)")) == reduces(graph)


def test_an_empty_batch_is_refused() -> None:
    for factor in (0, -1):
        with pytest.raises(StrategyError, match="give more than 0"):
            parse(f"batch(factor={factor})")


def test_more_workers_are_copies_that_reduce_together(graph: Graph) -> None:
    found = changed(graph, "workers(count=4)")
    assert found.ranks == (0, 1, 2, 3)
    assert [group.ranks for group in found.groups] == [(0, 1, 2, 3)]
    work = [found.ops.dur_ns[select(found, f"rank={rank},kind=compute")] for rank in range(4)]
    assert all(each.tolist() == work[0].tolist() for each in work)
    assert np.unique(found.ops.instance[found.ops.instance >= 0]).tolist() == [0, 1]


def test_fewer_workers_reduce_the_same_gradients(graph: Graph) -> None:
    assert reduces(changed(graph, "workers(count=3)")) == reduces(graph)
    assert changed(graph, "workers(count=3)").facts.world_size == 3


def test_a_setting_that_is_needed_is_asked_for() -> None:
    with pytest.raises(StrategyError, match=r"workers needs count, as in workers\(count=\.\.\.\)"):
        parse("workers")
    assert parse("buckets(size_bytes=5)") == Buckets(5, 0)
