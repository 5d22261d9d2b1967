"""A rank's collectives follow one another in the order of issue."""

import numpy as np

from paceline.graph import (
    Axis,
    Collective,
    DepKind,
    Graph,
    GraphBuilder,
    LaneKind,
    OpKind,
    check,
)
from paceline.graph.one_lane import on_one_lane
from paceline.graph.synthetic import MachineKind, TrainingJob, training
from paceline.replay import replay


def recording() -> Graph:
    """The collective that was issued first runs last on its thread, behind a delay."""
    b = GraphBuilder()
    group = b.group("0", (0, 1), Axis.DATA)
    first, second = b.instance(), b.instance()
    for rank in (0, 1):
        main = b.lane(rank, "main")
        gloo = [b.lane(rank, f"gloo {i}", kind=LaneKind.COMM_THREAD) for i in (0, 1)]
        asked = [b.op(f"ask {i}", main, 1, kind=OpKind.HOST) for i in (0, 1)]
        b.op("latency", gloo[0], 50, kind=OpKind.HOST, after=[asked[0]], dep=DepKind.LAUNCH)
        for turn, instance in ((1, second), (0, first)):
            b.op(
                f"talk {turn}", gloo[turn], 100, after=[asked[turn]], dep=DepKind.LAUNCH,
                kind=OpKind.COLLECTIVE, collective=Collective.ALL_REDUCE, size_bytes=8,
                group=group, instance=instance,
            )  # fmt: skip
    return check(b.build())


def test_collectives_stand_on_one_lane_as_they_were_issued() -> None:
    made = check(on_one_lane(recording()))
    talks = np.flatnonzero((made.ops.kind == OpKind.COLLECTIVE) & (made.ops.rank == 0))
    assert [made[int(op)].name for op in talks] == ["talk 0", "talk 1"]
    assert len(set(made.ops.lane[talks].tolist())) == 1
    line = replay(made)
    assert line.start_ns[talks].tolist() == [1, 101]


def test_delays_on_the_librarys_threads_go() -> None:
    assert "latency" not in {op.name for op in on_one_lane(recording())}


def test_streams_stay_as_they_are() -> None:
    graph = training(TrainingJob(machine=MachineKind.GPU))
    assert on_one_lane(graph) is graph
