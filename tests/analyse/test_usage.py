"""Shares of a step, and the part of the processors that a job uses."""

import pytest

from paceline.analyse.structure import structure_of
from paceline.analyse.usage import processor_share, usage_of
from paceline.graph import GraphBuilder, LaneKind, OpKind
from paceline.record.sidecar import Mode, RecordedHost, Sidecar, Step
from paceline.replay import replay


def sidecar(rank: int, host: str, cpu_ns: int) -> Sidecar:
    """Two plain steps of 100 ns, and one with instruments that does not count."""
    steps = [
        Step(index=n, begin_ns=100 * n, end_ns=100 * n + 100, mode=mode, cpu_ns=cpu_ns)
        for n, mode in enumerate((Mode.PLAIN, Mode.PLAIN, Mode.RECORDED))
    ]
    told = RecordedHost(rank=rank, world_size=2, host=host, cores=2)
    return Sidecar(records=[told, *steps], truncated=False)


def test_ranks_of_one_host_share_its_cores() -> None:
    assert processor_share([sidecar(0, "a", 100), sidecar(1, "a", 50)]) == pytest.approx(0.75)


def test_hosts_bring_their_cores() -> None:
    assert processor_share([sidecar(0, "a", 100), sidecar(1, "b", 100)]) == pytest.approx(0.5)


def test_nothing_is_said_where_nothing_was_counted() -> None:
    assert processor_share([]) is None
    assert processor_share([sidecar(0, "a", 0)]) is None


def test_shares_of_a_step_sum_to_one() -> None:
    b = GraphBuilder()
    thread, wire = b.lane(), b.lane(kind=LaneKind.COMM_THREAD)
    loaded = b.op("load", thread, 10, kind=OpKind.DATA)
    first = b.op("mm", thread, 40, after=[loaded])
    b.op("between ops", thread, 4, kind=OpKind.HOST)
    b.op("core wait", thread, 6, kind=OpKind.CORE_WAIT)
    moved = b.op("all_reduce", wire, 30, kind=OpKind.COLLECTIVE, after=[first])
    b.op("add", thread, 20, after=[moved])
    usage = usage_of(replay(b.build()))
    assert usage.compute == pytest.approx(60 / 100)
    assert usage.data == pytest.approx(10 / 100)
    assert usage.communication == pytest.approx(30 / 100)
    whole = usage.compute + usage.communication + usage.data + usage.queued + usage.rest
    assert whole == pytest.approx(1)
    assert usage.cpu is None


def test_a_graph_that_tells_no_memory_has_no_structure() -> None:
    b = GraphBuilder()
    b.op("mm", b.lane(), 10)
    assert structure_of(replay(b.build())) is None
