"""Analyses on graphs small enough to check by hand."""

import pytest

from paceline.analyse.copies import copies_of
from paceline.analyse.device import device_of
from paceline.analyse.idle import IdleCause, idle_of
from paceline.analyse.kernels import kernels_of
from paceline.analyse.launches import launches_of
from paceline.analyse.operators import CALLS, operators_of
from paceline.analyse.sequences import fused, sequences_of
from paceline.graph import Collective, DepKind, Graph, GraphBuilder, LaneKind, OpKind
from paceline.replay import replay


def launched(*calls: str) -> Graph:
    """A host that launches three kernels of 5 us under two operators, each call taking 10 us.

    host    mm 0-10  call 10-20   add 20-60  call 60-70  call 70-80
    stream           gemm 20-25              add 70-75   add 80-85, a copy of 1 kB 85-87
    """
    b = GraphBuilder(meta={CALLS: list(calls)})
    host = b.lane(0, "main thread")
    stream = b.lane(0, "stream 7", kind=LaneKind.STREAM)

    def call() -> int:
        return b.op("launch", host, 10_000, kind=OpKind.HOST)

    b.op("aten::mm", host, 10_000, kind=OpKind.HOST)
    b.op("gemm", stream, 5_000, after=[call()], dep=DepKind.LAUNCH)
    b.op("aten::add", host, 40_000, kind=OpKind.HOST)
    for _ in range(2):
        b.op("elementwise", stream, 5_000, after=[call()], dep=DepKind.LAUNCH)
    b.op("Memcpy", stream, 2_000, kind=OpKind.COPY, size_bytes=1_000)
    return b.build()


def meeting() -> Graph:
    """Rank 0 computes 4 us, rank 1 1 us; both then reduce for 5 us on a stream of their own, while
    they compute 2 us more."""
    b = GraphBuilder()
    group, met = b.group("world", (0, 1)), b.instance()
    for rank, ns in ((0, 4_000), (1, 1_000)):
        main = b.lane(rank, "stream 7", kind=LaneKind.STREAM)
        side = b.lane(rank, "stream 8", kind=LaneKind.STREAM)
        first = b.op("gemm", main, ns)
        b.op(
            "reduce", side, 5_000, kind=OpKind.COLLECTIVE, collective=Collective.ALL_REDUCE,
            group=group, instance=met, after=[first],
        )  # fmt: skip
        b.op("more", main, 2_000)
    return b.build()


@pytest.mark.parametrize("calls", [("launch",), ()])
def test_a_kernel_belongs_to_the_operator_before_the_call_that_launched_it(
    calls: tuple[str, ...],
) -> None:
    graph = launched(*calls)
    names = {graph[op].name: graph.text(int(name)) for op, name in enumerate(operators_of(graph))}
    assert names["gemm"] == "aten::mm"
    assert names["elementwise"] == "aten::add"
    assert names["launch"] == "aten::add"  # the last one's; calls are their operator's too


def test_a_stream_that_waits_for_late_calls_waits_for_the_host() -> None:
    (idle,) = idle_of(replay(launched()))
    assert (idle.span_ns, idle.busy_ns) == (67_000, 17_000)
    assert idle.by_cause == {IdleCause.HOST.value: 50_000}


def test_waiting_for_a_member_is_told_from_the_transfer() -> None:
    rows = {(row.rank, row.lane): row for row in idle_of(replay(meeting()))}
    assert rows[1, "stream 8"].by_cause == {IdleCause.RANK.value: 3_000}
    assert rows[0, "stream 8"].by_cause == {}


def test_a_thread_that_waits_for_a_message_waits_for_a_transfer() -> None:
    b = GraphBuilder()
    main, wire = b.lane(0, "main"), b.lane(0, "gloo", kind=LaneKind.COMM_THREAD)
    first = b.op("aten::mm", main, 1_000)
    sent = b.op("send", wire, 6_000, kind=OpKind.TRANSFER, after=[first])
    b.op("wait", main, 0, kind=OpKind.WAIT, after=[sent], dep=DepKind.WAIT)
    b.op("Python", main, 2_000, kind=OpKind.HOST)
    b.op("aten::add", main, 1_000)
    (idle,) = idle_of(replay(b.build()))
    assert idle.by_cause == {IdleCause.HOST.value: 2_000, IdleCause.TRANSFER.value: 6_000}


def test_a_devices_parts_sum_to_its_span_and_overlap_is_what_computing_hides() -> None:
    first, second = device_of(replay(meeting()))
    assert (first.compute_ns, first.both_ns, first.communication_ns) == (4_000, 2_000, 3_000)
    assert (second.compute_ns, second.both_ns, second.communication_ns) == (1_000, 2_000, 6_000)
    assert second.idle_ns == 0
    assert first.overlap == pytest.approx(0.4)


def test_a_kernel_tells_which_rank_is_slow_and_waiting_apart() -> None:
    by_name = {kernel.name: kernel for kernel in kernels_of(replay(meeting()))}
    assert by_name["gemm"].by_rank_ns == {0: 4_000, 1: 1_000}
    assert by_name["gemm"].imbalance == pytest.approx(0.6)
    assert by_name["reduce"].waited_ns == 3_000
    assert by_name["reduce"].imbalance == 0


def test_launches_tell_short_kernels_and_an_idle_device() -> None:
    (found,) = launches_of(replay(launched()))
    assert (found.count, found.short, found.short_ns) == (3, 3, 30_000)
    assert found.queue_most == 0
    assert found.delay_median_ns == 0
    assert found.empty_share == pytest.approx(50 / 65)


def test_a_host_that_is_ahead_fills_the_queue() -> None:
    b = GraphBuilder()
    host, stream = b.lane(0, "main"), b.lane(0, "stream 7", kind=LaneKind.STREAM)
    for _ in range(3):
        call = b.op("launch", host, 1_000, kind=OpKind.HOST)
        b.op("gemm", stream, 10_000, after=[call], dep=DepKind.LAUNCH)
    (found,) = launches_of(replay(b.build()))
    assert (found.queue_most, found.short) == (2, 0)
    assert found.empty_share == 0


def test_copies_tell_their_rate_while_bytes_move() -> None:
    (found,) = copies_of(replay(launched()))
    assert found.mean_bytes_per_s == pytest.approx(0.5e9)
    assert max(found.bytes_per_s) == pytest.approx(0.5e9)
    assert sum(rate > 0 for rate in found.bytes_per_s) <= 3


def repeated() -> Graph:
    """One thread: 4 times a pair of 3 us and 1 us in one layer, and a lone op."""
    b = GraphBuilder()
    lane = b.lane(0, "main thread")
    for _ in range(4):
        b.op("mul", lane, 3_000, layer="norm")
        b.op("add", lane, 1_000, layer="norm")
        b.op("mm", lane, 9_000, layer="linear")
    return b.build()


def test_a_sequence_that_recurs_tells_what_fusing_it_would_bring() -> None:
    (found,) = sequences_of(replay(repeated()))
    assert (found.under, found.names, found.times) == ("norm", ("mul", "add"), 4)
    assert found.gain_ns == 4_000


def test_fusing_takes_launches_away_too() -> None:
    graph = launched()
    kernels = tuple(op for op in range(len(graph)) if graph[op].name == "elementwise")
    assert replay(graph).step_ns - replay(fused(graph, [kernels])).step_ns == 10_000


def test_a_run_without_work_has_no_rows() -> None:
    b = GraphBuilder()
    b.op("idle", b.lane(0, "main"), 1_000, kind=OpKind.HOST)
    timeline = replay(b.build())
    for analysis in (idle_of, kernels_of, launches_of, copies_of, device_of, sequences_of):
        assert analysis(timeline) == ()
