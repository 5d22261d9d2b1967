"""Recorded work without the rests and the messages that its threads' clocks counted as work."""

import pytest

from paceline.cluster.machine import Machine
from paceline.graph import Axis, Collective, Facts, Graph, GraphBuilder, LaneKind, OpKind, Phase
from paceline.predict.undisturbed import undisturbed

MS = 1_000_000
MESSAGES = Machine(2.0, interrupt_ns_per_byte=0.2)
RESTS = Machine(2.0, rested=1.25, rest_ns=5.0 * MS)


def beside_messages(work_ms: int, *, cores: float = 2.0) -> Graph:
    """Two workers at work while they reduce 10 MB in 10 ms: two bytes a nanosecond in all."""
    b = GraphBuilder(facts=Facts(world_size=2, cores=cores))
    group, instance = b.group("data", (0, 1), Axis.DATA), b.instance()
    for rank in (0, 1):
        b.op("work", b.lane(rank), work_ms * MS, phase=Phase.BACKWARD)
        b.op("reduce", b.lane(rank, "gloo", kind=LaneKind.COMM_THREAD), 10 * MS,
             kind=OpKind.COLLECTIVE, collective=Collective.ALL_REDUCE, size_bytes=10**7,
             group=group, instance=instance)  # fmt: skip
    return b.build()


def work_ms(graph: Graph) -> list[float]:
    return (graph.ops.dur_ns[graph.ops.kind == OpKind.COMPUTE] / MS).tolist()


@pytest.mark.parametrize(("recorded_ms", "alone_ms"), [(10, 8.0), (20, 18.0)])
def test_what_the_kernel_took_of_each_core_meanwhile_is_no_work(
    recorded_ms: int, alone_ms: float
) -> None:
    """0.4 of two cores for 10 ms."""
    assert work_ms(undisturbed(beside_messages(recorded_ms), MESSAGES)) == [alone_ms] * 2


def test_work_behind_a_rest_is_as_long_as_in_a_row() -> None:
    """Waits of 4 and of 5 ms, of which only the second is a rest."""
    b = GraphBuilder(facts=Facts(world_size=1, cores=2.0))
    thread, link = b.lane(0), b.lane(0, "in", kind=LaneKind.LINK_IN)
    last = b.op("work", thread, 10 * MS, phase=Phase.FORWARD)
    for wait_ms in (4, 5):
        wait = b.op("wait", link, wait_ms * MS, kind=OpKind.WAIT, after=[last])
        last = b.op("work", thread, 10 * MS, phase=Phase.FORWARD, after=[wait])
    assert work_ms(undisturbed(b.build(), RESTS)) == [10.0, 10.0, 8.0]


def test_communication_keeps_its_time() -> None:
    graph = beside_messages(10)
    talks = graph.ops.kind == OpKind.COLLECTIVE
    assert undisturbed(graph, MESSAGES).ops.dur_ns[talks].tolist() == [10 * MS] * 2


def test_where_nothing_is_known_of_the_machine_or_its_cores_the_recording_stands() -> None:
    graph = beside_messages(10)
    assert undisturbed(graph, None) is graph
    assert undisturbed(graph, Machine(2.0)) is graph
    unknown = beside_messages(10, cores=0.0)
    assert undisturbed(unknown, MESSAGES) is unknown
