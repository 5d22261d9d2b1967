"""Communication on a timeline, by hand: two ranks, one late."""

from paceline.graph import Collective, Graph, GraphBuilder, OpKind
from paceline.replay import replay
from paceline.replay.communication import group_shares, meetings, stragglers
from paceline.replay.steps import step_times


def late_pair(count: int = 1) -> Graph:
    """Each step rank 1 computes 30 ns longer than rank 0; then both reduce 1,000 bytes in 20 ns."""
    b = GraphBuilder()
    both = b.group("dp", [0, 1])
    lanes = [b.lane(rank=rank) for rank in range(2)]
    for step in range(count):
        joint = b.instance()
        for rank, lane in enumerate(lanes):
            b.op("step", lane, kind=OpKind.MARKER, step=step)
            b.op("load", lane, 5, step=step)
            b.op("matmul", lane, 10 + 30 * rank, step=step)
            b.op(
                "reduce",
                lane,
                20,
                kind=OpKind.COLLECTIVE,
                collective=Collective.ALL_REDUCE,
                size_bytes=1000,
                group=both,
                instance=joint,
                step=step,
            )
    return b.build()


def test_skew_is_arrival_and_transfer_is_what_no_member_waited() -> None:
    (met,) = meetings(replay(late_pair()))
    assert (met.skew_ns, met.transfer_ns, met.waiting_ns, met.late_rank) == (30, 20, 30, 1)
    assert met.bus_bytes_per_s == 1000 / 20e-9  # 2 (n - 1) / n is 1 for two ranks


def test_a_group_sums_waiting_and_transfer_over_its_ranks() -> None:
    (share,) = group_shares(meetings(replay(late_pair(3))))
    assert (share.meetings, share.waiting_ns, share.transfer_ns) == (3, 90, 120)


def test_a_straggler_is_named_with_the_op_that_made_it_late() -> None:
    timeline = replay(late_pair(2))
    (late,) = stragglers(timeline, meetings(timeline))
    assert (late.rank, late.times, late.caused_ns) == (1, 2, 60)
    assert (late.op, late.excess_ns) == ("matmul", 30)


def test_steps_run_from_mark_to_mark() -> None:
    times = step_times(replay(late_pair(3)))
    assert times.number == (0, 1, 2)
    assert times.lasted_ns == (65, 65, 65)
    assert (times.median_ns, times.spread) == (65.0, 0.0)


def test_a_graph_without_communication_has_no_meetings() -> None:
    b = GraphBuilder()
    b.op("matmul", b.lane(), 5)
    timeline = replay(b.build())
    assert (meetings(timeline), stragglers(timeline, ())) == ((), ())
    assert step_times(timeline).lasted_ns == (5,)
