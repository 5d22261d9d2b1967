"""What cannot be replayed is refused with a message that names the op and the way out."""

from dataclasses import replace

import numpy as np
import pytest

from paceline.cluster import Cluster
from paceline.errors import GraphError, ReplayError
from paceline.graph import UNPRICED, Discipline, Graph, GraphBuilder, OpKind
from paceline.replay import Contention, Engine, Live, Slowdown, replay, replay_many
from paceline.replay.stuck import stuck

ENGINES = pytest.mark.parametrize(
    "engine",
    [Engine.REFERENCE, pytest.param(Engine.NATIVE, marks=pytest.mark.needs("native"))],
)


def chain(*durations: int) -> Graph:
    b = GraphBuilder()
    lane = b.lane()
    for number, dur_ns in enumerate(durations):
        b.op(f"op {number}", lane, dur_ns)
    return b.build()


@ENGINES
def test_durations_beyond_32_bits_simply_work(engine: Engine) -> None:
    timeline = replay(chain(2**31, 2**40, 2**61), engine=engine)
    assert timeline.step_ns == 2**31 + 2**40 + 2**61


@ENGINES
def test_an_empty_graph_is_refused(engine: Engine) -> None:
    with pytest.raises(ReplayError, match="empty graph"):
        replay(chain(), engine=engine)


def test_unpriced_ops_are_named() -> None:
    with pytest.raises(ReplayError, match=r"1 ops are unpriced, first op 1 'op 1' .*cluster"):
        replay(chain(3, UNPRICED))
    assert replay(chain(3, UNPRICED), prices=np.array([3, 4])).step_ns == 7


def test_negative_and_overflowing_durations_are_refused() -> None:
    with pytest.raises(ReplayError, match=r"op 0 'op 0' .* has duration -7 ns"):
        replay(chain(1), prices=np.array([-7]))
    with pytest.raises(ReplayError, match=r"overflow; the longest is op 1 .* Check its unit"):
        replay(chain(5, 2**62, 2**62))


def test_prices_must_be_whole_and_one_an_op() -> None:
    for prices in (np.array([1.0]), np.array([1, 2])):
        with pytest.raises(ReplayError, match="needed is int64 with one row"):
            replay(chain(5), prices=prices)


@ENGINES
def test_a_cycle_is_told_by_the_names_of_its_ops(engine: Engine) -> None:
    b = GraphBuilder()
    lane = b.lane()
    first, second = b.op("first", lane), b.op("second", lane)
    b.link(second, first)  # against the recorded order of the lane
    with pytest.raises(GraphError, match=r"cycle of 2 ops: op . '(first|second)' .* -> op"):
        replay(b.build(), engine=engine)


@ENGINES
def test_a_long_cycle_is_told_by_its_first_ops(engine: Engine) -> None:
    b = GraphBuilder()
    lane = b.lane()
    ops = [b.op(f"op {at}", lane) for at in range(100)]
    b.link(ops[-1], ops[0])
    with pytest.raises(GraphError, match=r"cycle of 100 ops: .* -> 94 more -> op") as told:
        replay(b.build(), engine=engine)
    assert len(str(told.value)) < 500


@ENGINES
def test_members_met_in_different_orders_are_reported_as_stuck(engine: Engine) -> None:
    b = GraphBuilder()
    lanes = [b.lane(rank, discipline=Discipline.PRIORITY) for rank in range(2)]
    group = b.group("all", range(2))
    for collective in range(2):
        instance = b.instance()
        for rank, lane in enumerate(lanes):
            b.op(
                f"reduce {collective}",
                lane,
                1,
                kind=OpKind.COLLECTIVE,
                group=group,
                instance=instance,
                priority=abs(rank - collective),  # rank 0 wants 0 first, rank 1 wants 1
            )
    with pytest.raises(ReplayError, match=r"stuck: 4 of 4 ops.*'reduce 0' \(rank 0.*'reduce 1'"):
        replay(b.build(), engine=engine)


def test_an_unknown_lane_does_not_crash_the_engine() -> None:
    graph = chain(1, 2)
    lane = np.array([0, 9], np.int32)
    with pytest.raises(GraphError, match=r"op 1 .* has lane 9; there are 1 lanes"):
        replay(replace(graph, ops=replace(graph.ops, lane=lane)))


def test_slowdowns_below_one_or_for_other_devices_are_refused() -> None:
    with pytest.raises(ReplayError, match="factor of 1"):
        Slowdown(compute=0.5)
    with pytest.raises(ReplayError, match="2 devices; the graph has 1"):
        replay(chain(1), contention=Contention((Slowdown(), Slowdown())))
    graph = chain(2**51)
    slow = Contention.everywhere(graph, compute=1, communication=1)
    with pytest.raises(ReplayError, match=r"2\^50"):
        replay(graph, contention=slow)


def test_a_cluster_and_prices_together_are_refused() -> None:
    graph = chain(1)
    with pytest.raises(ReplayError, match="not both"):
        replay(graph, cluster=object.__new__(Cluster), prices=np.array([1]))


def test_draws_without_samples_are_refused() -> None:
    with pytest.raises(ReplayError, match="no op has samples"):
        replay_many(chain(1), 10)


def test_live_refuses_what_replay_refuses_and_stays_as_it_was() -> None:
    live = Live(chain(1, 2))
    for ops, dur_ns in (([0], -3), ([5], 1), ([0, 0], 1), ([0], 2**62)):
        with pytest.raises(ReplayError):
            live.resize(ops, dur_ns)
    with pytest.raises(ReplayError, match="nothing to undo"):
        live.undo()
    assert live.step_ns == 3


def test_a_replay_in_which_nothing_is_ready_names_the_ops_that_never_end() -> None:
    b = GraphBuilder()
    lane = b.lane()
    for name in ("first", "second", "third"):
        b.op(name, lane, 1)
    ended, ready_ns = np.array([True, False, False]), np.full(3, -1, np.int64)
    told = str(stuck(b.build(), ended, ready_ns))
    assert "2 of 3 ops can never end. Never ready: " in told
    assert "'second'" in told
    assert "'third'" in told
    assert "'first'" not in told
