"""Timelines small enough to check by hand, in both engines. The arithmetic stands beside them."""

import pytest

from paceline.graph import Discipline, Graph, GraphBuilder, check
from paceline.graph.synthetic import Pipeline, Ring, pipeline, ring
from paceline.replay import Engine, replay

ENGINES = pytest.mark.parametrize(
    "engine",
    [
        Engine.REFERENCE,
        pytest.param(Engine.NATIVE, marks=pytest.mark.needs("native")),
        pytest.param(Engine.WEBASSEMBLY, marks=pytest.mark.needs("webassembly", "wasmtime")),
    ],
)


def times(graph: Graph, engine: Engine) -> dict[str, tuple[int, int, int]]:
    """(ready, start, end) of each op by its name and rank."""
    timeline = replay(check(graph), engine=engine)
    rows = zip(timeline.ready_ns.tolist(), timeline.start_ns.tolist(), timeline.end_ns.tolist())
    return {f"{op.name}@{op.rank}": row for op, row in zip(graph, rows)}


@ENGINES
def test_two_lanes_and_a_join(engine: Engine) -> None:
    # a (5) on lane 0; b (3) and c (4) on lane 1; d (2) on lane 0 waits for c
    # b 0-3, c 3-7 behind it; a 0-5; d waits for c: 7-9
    b = GraphBuilder()
    left, right = b.lane(name="left"), b.lane(name="right")
    b.op("a", left, 5)
    b.op("b", right, 3)
    third = b.op("c", right, 4)
    b.op("d", left, 2, after=[third])
    assert times(b.build(), engine) == {
        "a@0": (0, 0, 5),
        "b@0": (0, 0, 3),
        "c@0": (3, 3, 7),
        "d@0": (7, 7, 9),
    }


@ENGINES
def test_a_recorded_lane_waits_where_a_priority_lane_overtakes(engine: Engine) -> None:
    # "slow" feeds op x; y is ready at once. x has the lower id.
    # RECORDED: x 10-11, then y 11-13. PRIORITY: y 0-2, then x 10-11.
    expected = {Discipline.RECORDED: (10, 11), Discipline.PRIORITY: (10, 0)}
    for discipline, starts in expected.items():
        b = GraphBuilder()
        feeder, lane = b.lane(name="feeder"), b.lane(discipline=discipline)
        slow = b.op("slow", feeder, 10)
        b.op("x", lane, 1, after=[slow])
        b.op("y", lane, 2)
        found = times(b.build(), engine)
        assert (found["x@0"][1], found["y@0"][1]) == starts


@ENGINES
def test_a_one_stage_pipeline_is_a_sum(engine: Engine) -> None:
    # 2 micro-batches of 10 forward and 20 backward, then 5 of update: 2 * 30 + 5 = 65
    job = Pipeline(1, 2, forward_ns=10, backward_ns=20, update_ns=5)
    assert replay(pipeline(job), engine=engine).step_ns == 65


@ENGINES
def test_a_two_stage_pipeline_has_its_textbook_length(engine: Engine) -> None:
    # 1F1B without message cost: (micro-batches + stages - 1) * (forward + backward) + update
    # = (4 + 2 - 1) * 30 + 5 = 155
    job = Pipeline(2, 4, forward_ns=10, backward_ns=20, message_ns=0, update_ns=5)
    assert replay(pipeline(job), engine=engine).step_ns == 155


@ENGINES
def test_the_smallest_ring(engine: Engine) -> None:
    # 2 ranks, 1 layer, 1 tensor of 2,000 bytes: 2 chunks of 1,000 bytes, 2 ring steps.
    # forward 10, backward 20 -> 30; sync 5 -> 35
    # a send takes 7 of latency + 1,000 bytes at 1 byte a ns = 1,007; a receive 1,000 at 10 = 100
    # send 0: 35-1042, receive 0: -1142, send 1: -2149, receive 1: -2249, update 3: -2252
    job = Ring(
        ranks=2,
        layers=1,
        tensors=1,
        tensor_bytes=2_000,
        forward_ns=10,
        backward_ns=20,
        sync_ns=5,
        update_ns=3,
        link_bytes_per_s=10**9,
        link_latency_ns=7,
        add_bytes_per_s=10**10,
    )
    timeline = replay(check(ring(job)), engine=engine)
    one_rank = [10, 30, 35, 1042, 1142, 2149, 2249, 2252]
    assert timeline.end_ns.tolist() == one_rank * 2


@ENGINES
def test_ops_of_no_duration_make_further_rounds_at_one_instant(engine: Engine) -> None:
    # marker (0) ends at 0 and readies "urgent" for the next round at 0; by then the lane has taken
    # "patient", which was ready in the first round: patient 0-4, urgent 4-5
    b = GraphBuilder()
    host, lane = b.lane(name="host"), b.lane(discipline=Discipline.PRIORITY)
    marker = b.op("marker", host, 0)
    b.op("urgent", lane, 1, after=[marker], priority=-1)
    b.op("patient", lane, 4)
    found = times(b.build(), engine)
    assert found["patient@0"] == (0, 0, 4)
    assert found["urgent@0"] == (4, 4, 5)
