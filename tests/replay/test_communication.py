"""Communication on a timeline, by hand: two ranks, one late."""

from collections import Counter

import pytest

from paceline.graph import NONE, Collective, Graph, GraphBuilder, OpKind
from paceline.graph.synthetic import Parallel, TrainingJob, training
from paceline.replay import Timeline, replay
from paceline.replay.communication import Meeting, group_shares, meetings
from paceline.replay.steps import step_times
from paceline.replay.stragglers import stragglers


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


def did(timeline: Timeline, meeting: Meeting) -> dict[int, Counter[str]]:
    """By member, nanoseconds by name of its work since its meeting before: op by op."""
    graph, found = timeline.graph, {}
    for member in timeline.members_of(meeting.instance).tolist():
        until, rank = timeline.ready_ns[member], graph.ops.rank[member]
        mine = [op for op in range(len(graph)) if graph.ops.rank[op] == rank]
        mine = [op for op in mine if timeline.end_ns[op] <= until]
        met = [op for op in mine if graph.ops.instance[op] != NONE]
        since = max((timeline.end_ns[op] for op in met), default=0)
        works = [op for op in mine if op not in met and graph.ops.kind[op] != OpKind.WAIT]
        found[int(rank)] = Counter[str]()
        for op in works:
            if timeline.start_ns[op] >= since:
                lasted = int(timeline.end_ns[op] - timeline.start_ns[op])
                found[int(rank)][graph.text(int(graph.ops.name[op]))] += lasted
    return found


@pytest.mark.parametrize("parallel", [Parallel.DDP, Parallel.FSDP2])
def test_every_straggler_is_set_beside_the_mean_of_its_partners(parallel: Parallel) -> None:
    timeline = replay(training(TrainingJob(parallel, workers=8, layers=6, steps=4, jitter=0.3)))
    found = meetings(timeline)
    late = stragglers(timeline, found)
    assert len(late) > 1
    for each in late:
        mine = [m for m in found if m.late_rank == each.rank and m.waiting_ns]
        assert (each.times, each.caused_ns) == (len(mine), sum(m.waiting_ns for m in mine))
        spent = did(timeline, max(mine, key=lambda m: m.waiting_ns))
        own = spent.pop(each.rank)
        excess = {
            name: ns - sum(other[name] for other in spent.values()) // len(spent)
            for name, ns in own.items()
        }
        most = max(excess.values(), default=0)
        assert (each.excess_ns, excess.get(each.op, 0)) == (max(0, most), most)


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
