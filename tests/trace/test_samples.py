"""Durations of like ops in other steps, as samples."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from paceline.graph import Graph, GraphBuilder, check
from paceline.replay import replay, replay_many
from paceline.trace.build import build
from paceline.trace.readers import read_all
from paceline.trace.readers.source import sources
from paceline.trace.samples import with_samples


def steps(document: Callable[..., Any], durations: list[int], *, odd: int = -1) -> Any:
    """Steps of 100 us with one op and one kernel; step `odd` runs another op before them."""
    d = document()
    for number, dur in enumerate(durations):
        at = 100 * number
        d.step(number, at, 100)
        if number == odd:
            d.op("aten::extra", at + 2, 5)
        d.op("aten::mm", at + 10, dur).call("cudaLaunchKernel", at + 12, 4, correlation=number)
        d.kernel("gemm", at + 20, 2 * dur, number)
    return d


def built(d: Any, folder: Path) -> Graph:
    return check(build(read_all(sources([d.save(folder / "rank0.json")]))))


def taken(graph: Graph, name: str) -> list[list[int]]:
    """Samples of each op of a name, in order of its ids."""
    assert graph.spread is not None
    ptr, found = graph.spread.ptr, graph.spread.samples_ns
    return [found[ptr[o.id] : ptr[o.id + 1]].tolist() for o in graph if o.name == name]


def test_each_op_has_the_durations_of_its_like_in_every_step(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    graph = built(steps(document, [20, 24, 30]), tmp_path)
    assert taken(graph, "gemm") == [[40_000, 48_000, 60_000]] * 3
    operator = taken(graph, "aten::mm")
    assert [14_000, 18_000, 24_000] in operator  # what follows the launch within the op
    assert [] in operator  # the 2 us before the launch never vary


def test_a_step_of_another_shape_gives_no_samples_to_the_others(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    graph = built(steps(document, [20, 24, 30], odd=1), tmp_path)
    assert [14_000, 24_000] in taken(graph, "aten::mm")
    assert not any(18_000 in of_op for of_op in taken(graph, "aten::mm"))


def test_one_step_has_no_samples(document: Callable[..., Any], tmp_path: Path) -> None:
    assert built(steps(document, [20]), tmp_path).spread is None


def test_draws_from_a_recording_lie_around_its_replay(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    graph = built(steps(document, [20, 24, 30, 22]), tmp_path)
    drawn = replay_many(graph, 200, seed=3)
    assert drawn.p5_ns < replay(graph).step_ns < drawn.p95_ns


def test_more_samples_than_a_graph_may_carry_are_left_out_with_a_note() -> None:
    b = GraphBuilder()
    lane = b.lane()
    for step, dur in enumerate((5, 7, 9)):
        b.op("mm", lane, dur, step=step)
    alike = np.zeros(3, np.int64)
    assert with_samples(b.build(), [alike], most=9).spread is not None
    without = with_samples(b.build(), [alike], most=8)
    assert without.spread is None
    assert "fewer steps" in without.meta["notes"][-1]


def test_samples_of_a_real_job_cover_most_of_its_time(real_traces: Path) -> None:
    traces = read_all(sources([real_traces / "nccl-metadata/nccl_data.json.gz"]))
    graph = check(build(traces))
    assert graph.spread is not None
    told = np.diff(graph.spread.ptr) > 0
    assert told.mean() > 0.9
    assert graph.ops.dur_ns[told].sum() > 0.8 * graph.ops.dur_ns.sum()
