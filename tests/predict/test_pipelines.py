"""Graphs whose steps overlap, messages on shaped links, and work after a rest, in `predict`."""

from dataclasses import replace

import numpy as np
import pytest

from paceline.cluster import Cluster, Device, Host, Link
from paceline.cluster.machine import Machine
from paceline.graph import Facts, Graph, GraphBuilder, LaneKind, OpKind, Phase
from paceline.graph.synthetic import Pipeline, pipeline
from paceline.predict import Candidates, PredictError, Question, predict
from paceline.strategies import strategy

MS = 1_000_000


def cluster(workers: int = 2, rate: float = 1e9) -> Cluster:
    hosts = tuple(Host(f"h{i}", Device("core")) for i in range(workers))
    return Cluster(hosts, Link.both_ways(rate))


def overlapping(steps: int = 5, work_ms: int = 10) -> Graph:
    """One thread: the next step's forward runs before this step's update of 1 ms."""
    b = GraphBuilder({}, Facts(world_size=1, steps_overlap=True))
    thread = b.lane(0, "main", kind=LaneKind.THREAD)
    b.op("forward", thread, work_ms * MS, phase=Phase.FORWARD, step=0)
    for step in range(steps):
        if step + 1 < steps:
            b.op("forward", thread, work_ms * MS, phase=Phase.FORWARD, step=step + 1)
        b.op("update", thread, MS, phase=Phase.UPDATE, step=step)
    return b.build()


def with_messages() -> Graph:
    """Two stages on threads of their own, a megabyte between them."""
    job = Pipeline(stages=2, micro_batches=2, message_bytes=1_000_000)
    graph = pipeline(job)
    kind = np.where(graph.lanes.kind == LaneKind.STREAM, LaneKind.THREAD, graph.lanes.kind)
    return replace(graph, lanes=replace(graph.lanes, kind=kind.astype(np.uint8)))


def test_a_step_that_overlaps_the_next_is_the_time_between_updates() -> None:
    """The last step has no forward beside it, so it is left out."""
    found = predict(overlapping())
    assert found.step_ns == 11 * MS
    assert found.timeline.graph.world_size == 1
    assert len(found.timeline.graph) == len(overlapping())


def test_steps_that_overlap_are_as_long_among_candidates() -> None:
    graph, question = overlapping(), Question()
    made = Candidates(graph, cluster(1), question).step_ns(())
    assert made == predict(graph, (), cluster(1), question).step_ns


def test_too_few_steps_that_overlap_are_refused() -> None:
    with pytest.raises(PredictError, match="draw 3 steps or more"):
        predict(overlapping(2))


def test_one_of_two_threads_waits_for_the_only_core() -> None:
    """Messages without a group keep their time, so that no cluster is needed for shared cores."""
    graph = with_messages()
    whole, half = (predict(graph, (), None, Question(Machine(cores))) for cores in (2.0, 1.0))
    assert half.step_ns > 1.3 * whole.step_ns
    assert whole.step_ns == predict(graph).step_ns


def test_work_after_a_rest_takes_as_much_longer_as_the_machine_says() -> None:
    b = GraphBuilder({}, Facts(world_size=1))
    thread, link = b.lane(0, "main", kind=LaneKind.THREAD), b.lane(0, "in", kind=LaneKind.LINK_IN)
    first = b.op("first", thread, 10 * MS, phase=Phase.FORWARD)
    wait = b.op("wait", link, 3 * MS, kind=OpKind.WAIT, after=[first])
    second = b.op("second", thread, 10 * MS, phase=Phase.FORWARD, after=[wait])
    b.op("third", thread, 10 * MS, phase=Phase.FORWARD, after=[second])
    found = predict(b.build(), (), None, Question(Machine(1.0, rested=1.5)))
    assert found.step_ns == (10 + 3 + 15 + 10) * MS
    assert any("after a rest" in reason for reason in found.rests_on)


def rests_between(*, cores: float, wait_ns: int) -> Graph:
    """A worker's pass of 12 ms, a message of so many ns, and four passes of 12 ms."""
    b = GraphBuilder({}, Facts(world_size=1, cores=cores))
    thread, link = b.lane(0, "main", kind=LaneKind.THREAD), b.lane(0, "in", kind=LaneKind.LINK_IN)
    first = b.op("first", thread, 12 * MS, phase=Phase.FORWARD)
    wait = b.op("wait", link, wait_ns, kind=OpKind.WAIT, after=[first])
    for number in range(4):
        b.op(f"later {number}", thread, 12 * MS, phase=Phase.FORWARD, after=[wait])
    return b.build()


COLD = Machine(1.0, rested=1.5, rest_ns=5.0 * MS, warm_ns=20.0 * MS)


def test_work_behind_a_rest_is_slow_until_its_thread_is_warm() -> None:
    graph = rests_between(cores=0.0, wait_ns=5 * MS)
    found = predict(graph, (), None, Question(COLD))
    assert found.step_ns == pytest.approx((5 * 12 + 5 + 20 * (1 - 1 / 1.5)) * MS)
    assert "for 20 ms of work" in " ".join(found.rests_on)
    one = predict(graph, (), None, Question(replace(COLD, warm_ns=18.0 * MS)))
    assert one.step_ns == (12 + 5 + 18 + 12 + 12 + 12) * MS
    shorter = rests_between(cores=0.0, wait_ns=5 * MS - 1)
    assert predict(shorter, (), None, Question(COLD)).step_ns == (5 * 12 + 5) * MS - 1


def test_recorded_work_behind_a_rest_is_taken_for_slow_work() -> None:
    """Once as recorded, and once without the wait."""
    graph = rests_between(cores=1.0, wait_ns=6 * MS)
    again = predict(graph, (), None, Question(COLD))
    assert predict(graph).step_ns == (5 * 12 + 6) * MS
    assert again.step_ns == pytest.approx((5 * 12 + 6) * MS)
    sooner = predict(
        graph, [strategy("scale", select="kind=wait", factor=0.5)], None, Question(COLD)
    )
    assert sooner.step_ns == pytest.approx((5 * 12 + 3 - 20 * (1 - 1 / 1.5)) * MS)


def test_messages_on_shaped_links_take_the_links_time_whatever_was_drawn() -> None:
    graph = with_messages()
    machine = Machine(8.0, cpu_ns_per_byte=1e-3, message_ns=0)
    drawn = replace(graph, ops=replace(graph.ops, dur_ns=np.where(
        graph.ops.kind == OpKind.SEND, 7 * MS, graph.ops.dur_ns)))  # fmt: skip
    question = Question(machine, shaped_links=True)
    slow, fast, other = (
        predict(one, (), cluster(2, rate), question).step_ns
        for one, rate in ((graph, 1e8), (graph, 1e10), (drawn, 1e10))
    )
    assert slow > fast == other


@pytest.mark.parametrize(
    ("question", "on", "reason"),
    [
        (Question(Machine(1.0), shaped_links=True), None, "shaped links need a cluster"),
        (Question(shaped_links=True), cluster(), "shaped links need a machine"),
        (Question(Machine(2.0), draws=3, shaped_links=True), cluster(), "leave --draws out"),
        (Question(Machine(2.0, rested=1.2), draws=3), cluster(), "leave --draws out"),
    ],
)
def test_what_shaped_links_and_rests_cannot_answer_is_said(
    question: Question, on: Cluster | None, reason: str
) -> None:
    with pytest.raises(PredictError, match=reason):
        predict(with_messages(), (), on, question)
