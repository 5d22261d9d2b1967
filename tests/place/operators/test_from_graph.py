"""Recorded graphs as placement problems."""

import numpy as np
import pytest

from paceline.graph import DepKind, Graph, GraphBuilder, MemoryCategory, OpKind, Phase
from paceline.place.operators import (
    PlacementError,
    Target,
    drawn_from,
    place_contiguous,
    problem_from,
)

MS = 1_000_000
TWO = Target(accelerators=2, bytes_per_s=1e9)


def training_step() -> Graph:
    """Two layers forward and backward on one stream, launched from a thread; 2 MB between them."""
    b = GraphBuilder()
    host, gpu = b.lane(name="thread"), b.lane(name="stream 7")
    launches = [b.op("launch", host, 10, kind=OpKind.HOST) for _ in range(4)]
    last: list[int] = []
    for launch, (layer, phase, dur_ms) in zip(
        launches,
        [
            ("one", Phase.FORWARD, 3),
            ("two", Phase.FORWARD, 5),
            ("two", Phase.BACKWARD, 10),
            ("one", Phase.BACKWARD, 6),
        ],
    ):
        op = b.op(
            layer, gpu, dur_ms * MS, after=last, phase=phase, layer=layer, size_bytes=2_000_000
        )
        b.link(launch, op, DepKind.LAUNCH)
        last = [op]
    b.allocate(launches[0], 50, MemoryCategory.WEIGHTS)
    b.allocate(4, 70, MemoryCategory.WEIGHTS)
    b.allocate(4, -70, MemoryCategory.WEIGHTS)
    return b.build()


def test_forward_and_backward_of_a_layer_share_a_colour() -> None:
    problem = problem_from(training_step(), TWO)
    assert problem.backward.tolist() == [False, False, True, True]
    assert problem.colour[0] == problem.colour[3] != problem.colour[1] == problem.colour[2]
    assert problem.accelerator_time.tolist() == [3.0, 5.0, 10.0, 6.0]
    assert problem.cost.tolist() == [2.0] * 4  # 2 MB at 1 GB/s, in ms
    assert problem.size.tolist() == [70.0, 0.0, 0.0, 0.0]
    assert list(zip(problem.source.tolist(), problem.target.tolist())) == [(0, 1), (1, 2), (2, 3)]


def test_what_is_known_of_results_is_counted_and_said() -> None:
    drawn = drawn_from(training_step(), TWO)
    assert drawn.results == {"allocated": 0, "touched": 3, "unknown": 0}
    assert "only the bytes touched are known" in drawn.notes[0]


def test_an_allocated_result_costs_its_own_bytes_not_those_touched() -> None:
    b = GraphBuilder()
    lane = b.lane()
    made = b.op("a", lane, MS, size_bytes=9_000_000)
    b.op("b", lane, MS)
    b.allocate(made, 3_000_000, MemoryCategory.ACTIVATIONS)
    drawn = drawn_from(b.build(), TWO)
    assert drawn.problem.cost.tolist() == [3.0, 0.0]
    assert (drawn.results["allocated"], drawn.notes) == (1, ())


def test_results_of_unknown_size_are_said_to_count_as_free() -> None:
    b = GraphBuilder()
    lane = b.lane()
    for name in "ab":
        b.op(name, lane, MS)
    drawn = drawn_from(b.build(), TWO)
    assert drawn.problem.cost.tolist() == [0.0, 0.0]
    assert "their messages count as free" in drawn.notes[0]


def test_two_layers_go_to_two_devices() -> None:
    answer = place_contiguous(problem_from(training_step(), TWO))
    assert answer.split is not None
    # first layer 3 + 6, second 5 + 10; forward and backward results cross: 2 + 2 on both sides
    assert answer.split.loads(problem_from(training_step(), TWO)) == [13.0, 19.0]


def test_ops_without_recorded_inputs_follow_their_lane() -> None:
    b = GraphBuilder()
    lane = b.lane()
    for name in "abc":
        b.op(name, lane, 4 * MS)
    problem = problem_from(b.build(), TWO)
    assert list(zip(problem.source.tolist(), problem.target.tolist())) == [(0, 1), (1, 2)]


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (Target(2, 1e9, rank=3), "rank 3 is not in the graph; it has ranks 0"),
        (Target(2, 1e9, step=8), "no compute ops in step 8"),
        (Target(2, 0.0), "must be above 0"),
        (Target(0, 1e9), "no device to place on"),
    ],
)
def test_what_cannot_be_placed_is_named(target: Target, reason: str) -> None:
    with pytest.raises(PlacementError, match=reason):
        problem_from(training_step(), target)


def test_a_graph_without_compute_ops_is_refused() -> None:
    b = GraphBuilder()
    b.op("launch", b.lane(), 5, kind=OpKind.HOST)
    with pytest.raises(PlacementError, match="rank 0 has no compute ops"):
        problem_from(b.build(), TWO)


def test_more_devices_never_slow_the_pipeline() -> None:
    values = [
        place_contiguous(problem_from(training_step(), Target(n, 1e9))).value for n in (1, 2, 3)
    ]
    assert values == sorted(values, reverse=True)
    assert values[0] == 24.0
    assert np.isfinite(values).all()
