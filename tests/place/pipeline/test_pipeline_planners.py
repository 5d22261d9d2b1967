"""PipeDream's and PipeDream-2BW's planners against enumeration, and what they refuse."""

import json
import math
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cli import main
from paceline.errors import FileError
from paceline.graph import GraphBuilder, MemoryCategory, Phase
from paceline.place.pipeline import (
    Fleet,
    LayerCost,
    Level,
    PipelineProfile,
    PlanError,
    Search,
    plan_hierarchical,
    plan_pipeline,
    profile_from_data,
    profile_of,
    profile_to_data,
)
from paceline.runtime.stages import PipelineSchedule

TWO = (PipelineSchedule.TWO_BUFFERED,)


def layer(size: int = 1, weight: int = 1000) -> LayerCost:
    return LayerCost("x", 1000 * size, 2000 * size, 10, weight, 60 * size, 8 * size, 8 * size)


def profile(layers: int = 8, weight: int = 1000) -> PipelineProfile:
    return PipelineProfile({b: (layer(b, weight),) * layers for b in (1, 2, 4)})


def fleet(devices: int, memory: float = math.inf, rate: float = 1e12) -> Fleet:
    return Fleet(devices, memory, rate, rate)


def test_with_free_memory_and_links_all_devices_are_used() -> None:
    plans = plan_pipeline(profile(), fleet(4), Search(64, TWO))
    assert plans[0].plan.devices == 4
    rates = [p.formula_per_s for p in plans]
    assert rates == sorted(rates, reverse=True)


def test_slow_links_between_replicas_make_the_pipeline_deep() -> None:
    """A gigabyte of weights a layer: data parallelism would send it for every batch."""
    best = plan_pipeline(profile(weight=10**9), fleet(4, rate=1e9), Search(64, TWO))[0]
    assert (best.plan.width, best.plan.shape.stages) == (1, 4)


def test_less_memory_brings_depth_and_then_recomputation() -> None:
    """Two versions of 8 layers are 16,000 bytes; four stages hold 4,000 and activations."""
    plans = plan_pipeline(profile(), fleet(4, memory=4500), Search(64, TWO))
    assert {p.plan.shape.stages for p in plans} == {4}
    plans = plan_pipeline(profile(), fleet(4, memory=4180), Search(64, TWO))
    assert {p.plan.recompute for p in plans} == {True}
    assert all(p.formula_memory_bytes <= 4180 for p in plans)


def test_no_plan_says_what_the_leanest_needs() -> None:
    with pytest.raises(PlanError, match=r"no plan fits into 100 bytes; the leanest needs"):
        plan_pipeline(profile(), fleet(4, memory=100), Search(64, TWO))


def test_a_batch_that_cannot_be_cut_is_refused() -> None:
    sizes = PipelineProfile({4: (layer(4),) * 8})
    with pytest.raises(PlanError, match=r"global batch of 6 into micro-batches of \[4\]"):
        plan_pipeline(sizes, fleet(2), Search(6, TWO))


@pytest.mark.parametrize("wrong", [(0, 1.0, 1.0), (1, 0.0, 1.0), (1, 1.0, -1.0)])
def test_a_fleet_of_nothing_is_refused(wrong: tuple[int, float, float]) -> None:
    devices, memory, rate = wrong
    with pytest.raises(PlanError):
        Fleet(devices, memory, rate, rate)


def enumerated(times: list[int], weights: list[int], devices: int, rate: float) -> float:
    """Least slowest stage or link over all cuts and all numbers of devices, one level."""

    def stage(first: int, end: int, m: int) -> float:
        sync = 4e9 * (m - 1) * sum(weights[first:end]) / (rate * m)
        return (sum(times[first:end]) + sync) / m

    def best(first: int, left: int) -> float:
        found = stage(first, len(times), left)
        for end in range(first + 1, len(times)):
            for mine in range(1, left):
                for other in range(1, left - mine + 1):
                    edge = 2e9 * 8 / (rate * other)
                    rest = exact(end, left - mine, other)
                    found = min(found, max(stage(first, end, mine), edge, rest))
        return found

    def exact(first: int, left: int, mine: int) -> float:
        """The best from `first` on whose first stage has `mine` devices."""
        found = stage(first, len(times), mine) if left == mine else math.inf
        for end in range(first + 1, len(times)):
            for other in range(1, left - mine + 1):
                edge = 2e9 * 8 / (rate * other)
                rest = exact(end, left - mine, other)
                found = min(found, max(stage(first, end, mine), edge, rest))
        return found

    return best(0, devices)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 100), st.integers(0, 50)), min_size=1, max_size=5),
    st.integers(1, 4),
)
def test_pipedreams_planner_finds_what_enumeration_finds(
    layers: list[tuple[int, int]], devices: int
) -> None:
    costs = [LayerCost("x", t, 0, 0, w, 0, 8, 8) for t, w in layers]
    found = plan_hierarchical(costs, [Level(devices, 1e9)])
    least = enumerated([t for t, _ in layers], [w for _, w in layers], devices, 1e9)
    assert found.slowest_ns == pytest.approx(least)
    assert found.stages[0].first == 0
    assert found.stages[-1].end == len(costs)
    assert sum(s.devices for s in found.stages) == devices
    assert all(a.end == b.first for a, b in pairwise(found.stages))


def test_two_levels_keep_heavy_weights_off_the_slow_links() -> None:
    """Within a server replicas are cheap; between the two servers a gigabyte would cross."""
    costs = [LayerCost("x", 1000, 2000, 0, 10**6, 0, 8, 8)] * 2
    found = plan_hierarchical(costs, [Level(2, 1e18), Level(2, 1e9)])
    assert [(s.first, s.end, s.devices) for s in found.stages] == [(0, 1, 2), (1, 2, 2)]


def test_a_profile_survives_json() -> None:
    one = profile()
    again = profile_from_data(json.loads(json.dumps(profile_to_data(one))), "here")
    assert again == PipelineProfile(dict(one.sizes))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([], "is no profile"),
        ({"sizes": {"x": []}}, "a micro-batch size is a whole number, not 'x'"),
        ({"sizes": {"1": [{"name": "a"}]}}, "layer a lacks"),
        (
            {"sizes": {"1": [{"name": "a", "forward_ns": 1, "backward_ns": math.nan}]}},
            "backward_ns of layer a is nan",
        ),
    ],
)
def test_a_profile_that_is_none_is_refused(data: object, says: str) -> None:
    with pytest.raises(FileError, match=says):
        profile_from_data(data, "here")


@pytest.mark.parametrize(
    "layers", [(), (LayerCost("x", -1, 5),), (LayerCost("x", 0, 0),)], ids=["none", "<0", "0"]
)
def test_layers_that_make_no_sense_are_refused(layers: tuple[LayerCost, ...]) -> None:
    with pytest.raises(PlanError):
        PipelineProfile({1: layers})


def test_a_recorded_step_becomes_a_profile() -> None:
    b = GraphBuilder()
    lane = b.lane(0)
    for phase, dur in ((Phase.FORWARD, 3), (Phase.FORWARD, 4), (Phase.BACKWARD, 9)):
        op = b.op("op", lane, dur, phase=phase, layer="block")
        b.allocate(op, 100, MemoryCategory.ACTIVATIONS)
    found = profile_of(b.build(), 16).sizes[16]
    assert found == (LayerCost("block", 7, 9, kept_bytes=300, output_bytes=100),)


def two_layers(size_bytes: int = 0) -> GraphBuilder:
    """Each layer runs an op forward and one backward."""
    b = GraphBuilder()
    lane = b.lane(0)
    for name, phase in (
        ("one", Phase.FORWARD),
        ("two", Phase.FORWARD),
        ("two", Phase.BACKWARD),
        ("one", Phase.BACKWARD),
    ):
        b.op(name, lane, 5, phase=phase, layer=name, size_bytes=size_bytes)
    return b


def test_a_layers_input_is_the_largest_piece_that_the_layer_before_allocated() -> None:
    b = two_layers(size_bytes=900)
    for size, category in (
        (300, MemoryCategory.ACTIVATIONS),  # its result
        (20, MemoryCategory.ACTIVATIONS),  # a mean beside it
        (5000, MemoryCategory.WEIGHTS),  # nobody's result
    ):
        b.allocate(0, size, category)
    found = profile_of(b.build(), 1)
    assert [x.input_bytes for x in found.sizes[1]] == [0, 300]
    assert found.notes == ()


def test_bytes_touched_bound_a_border_and_the_answer_says_so() -> None:
    found = profile_of(two_layers(size_bytes=900).build(), 1)
    assert [x.input_bytes for x in found.sizes[1]] == [0, 900]
    assert "for 1 of 1 layers only the bytes touched are known" in found.notes[0]


def test_borders_that_nothing_tells_of_are_said_to_count_as_free() -> None:
    found = profile_of(two_layers().build(), 1)
    assert [x.input_bytes for x in found.sizes[1]] == [0, 0]
    assert "how many bytes 1 of 1 layers pass on" in found.notes[0]
    assert any("no memory events of weights" in note for note in found.notes)


def test_weights_held_from_the_start_are_shared_out_by_the_gradients_of_layers() -> None:
    b = two_layers(size_bytes=900)
    b.allocate(0, 4000, MemoryCategory.WEIGHTS)
    b.allocate(2, 300, MemoryCategory.GRADIENTS)
    b.allocate(3, 100, MemoryCategory.GRADIENTS)
    assert [x.weight_bytes for x in profile_of(b.build(), 1).sizes[1]] == [1000, 3000]


def test_of_several_recorded_steps_one_is_taken() -> None:
    b = GraphBuilder()
    lane = b.lane(0)
    for step in range(3):
        for phase in (Phase.FORWARD, Phase.BACKWARD):
            b.op("op", lane, 5, phase=phase, layer="block", step=step)
    found = profile_of(b.build(), 1).sizes[1]
    assert (found[0].forward_ns, found[0].backward_ns) == (5, 5)


def test_a_json_profile_without_border_sizes_says_that_messages_are_free() -> None:
    rows = [{"name": name, "forward_ns": 1, "backward_ns": 2} for name in "ab"]
    found = profile_from_data({"sizes": {"1": rows}}, "here")
    assert found.notes == (
        "the profile has no input_bytes of 1 layers (b, ...): messages to them count as free",
    )


def test_a_graph_without_layers_is_refused() -> None:
    b = GraphBuilder()
    b.op("op", b.lane(0), 3)
    with pytest.raises(PlanError, match="no forward ops with a layer"):
        profile_of(b.build(), 1)


def test_the_command_prints_plans(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(profile_to_data(profile())))
    words = ["pipeline", str(path), "--devices", "4", "--global-batch", "16"]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {p["schedule"] for p in found["plans"]} <= {s.value for s in PipelineSchedule}
    for row in found["plans"]:
        assert row["width"] * row["microbatch"] * row["microbatches"] == 16
        assert row["replayed_step_ns"] > 0
    assert main([*words, "--schedule", "2bw"]) == 0
    assert "PipeDream's planner" in capsys.readouterr().out
    assert main([*words, "--memory", "10"]) == 1
    assert "no plan fits into 10 bytes" in capsys.readouterr().err
