"""`uneven_batches`: who gets how much, and what a step then takes."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.graph import Graph, Phase
from paceline.graph.scaled import scaled
from paceline.graph.synthetic import Parallel, TrainingJob, training
from paceline.replay import replay
from paceline.strategies import StrategyError, parse
from paceline.strategies.uneven_batches import UnevenBatches, level, work_of

Recording = Callable[..., Graph]


def slowed(graph: Graph, rank: int, factor: float) -> Graph:
    """Everything that the rank does takes longer."""
    return scaled(graph, (graph.ops.rank == rank) & (graph.ops.dur_ns > 0), factor)


def test_each_workers_passes_go_with_its_share_and_nothing_else(recording: Recording) -> None:
    graph = recording()
    made = parse("uneven_batches(shares=(3.0, 1.0))").transform(graph)
    passes = np.isin(graph.ops.phase, (Phase.FORWARD, Phase.BACKWARD)) & (graph.ops.dur_ns > 0)
    for op in graph:
        if op.name in ("addmm", "mm"):
            assert made.ops.dur_ns[op.id] == op.dur_ns * (1.5 if op.rank == 0 else 0.5)
        elif not passes[op.id] or op.name == "copy":
            assert made.ops.dur_ns[op.id] == op.dur_ns
    assert made.facts.samples == graph.facts.samples


def test_a_recording_with_a_slow_worker_proposes_shares_that_shorten_the_step(
    recording: Recording,
) -> None:
    graph = slowed(recording(), 1, 3.0)
    (found,) = UnevenBatches.choices(graph)
    assert isinstance(found, UnevenBatches)
    assert found.shares[0] > 2 * found.shares[1]
    assert replay(found.transform(graph)).step_ns < 0.9 * replay(graph).step_ns


def test_workers_that_are_alike_stay_as_they_are(recording: Recording) -> None:
    assert list(UnevenBatches.choices(recording())) == []


def test_work_is_told_apart_by_whether_it_grows(recording: Recording) -> None:
    grown, fixed = work_of(recording())
    assert grown.tolist() == [700.0, 700.0]  # forward, and backward of both gradients
    assert fixed.tolist() == [100.0, 100.0]  # copying back, and the update


TIMES = st.lists(st.tuples(st.floats(10, 1e6), st.floats(0, 1e6)), min_size=1, max_size=6)


@settings(deadline=None)
@given(TIMES)
def test_all_workers_end_together_unless_one_is_late_without_any_samples(
    times: list[tuple[float, float]],
) -> None:
    grown, fixed = (np.array(column) for column in zip(*times))
    shares = level(grown, fixed)
    assert shares.sum() == pytest.approx(len(shares))
    ends = fixed + shares * grown
    assert ends.max() <= (fixed + grown).max() * 1.01
    busy = shares > 0.01
    assert ends[busy].max() - ends[busy].min() <= 0.02 * ends.max()


@pytest.mark.parametrize(
    ("text", "said"),
    [("(1.0, 0.0)", "above 0"), ("(1.0, -2.0)", "above 0"), ("(1.0, 1.0, 1.0)", "3 shares for 2")],
)
def test_shares_that_cannot_be_are_refused(text: str, said: str, recording: Recording) -> None:
    with pytest.raises(StrategyError, match=said):
        parse(f"uneven_batches(shares={text})").transform(recording())


def test_workers_that_share_a_batch_are_refused() -> None:
    graph = training(TrainingJob(parallel=Parallel.TENSOR_DATA, tensor=2))
    shares = tuple(float(n + 1) for n in range(graph.world_size))
    with pytest.raises(StrategyError, match="parts of a model together"):
        UnevenBatches(shares).transform(graph)
