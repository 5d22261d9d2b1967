"""`batch`: what grows with the samples, and what does not."""

from collections.abc import Callable

import numpy as np
import pytest

from paceline.graph import UNPRICED, Graph, OpKind, select
from paceline.graph.synthetic import MachineKind, Parallel, TrainingJob, training
from paceline.strategies import StrategyError, parse

Recording = Callable[..., Graph]


def factors(graph: Graph, text: str) -> dict[str, float]:
    """By name of op, how many times as long it takes."""
    after = parse(text).transform(graph).ops.dur_ns
    return {
        op.name: after[op.id] / op.dur_ns
        for op in graph
        if op.dur_ns > 0 and op.kind is not OpKind.COLLECTIVE
    }


def test_forward_and_backward_grow_but_not_copies_of_gradients_nor_the_update(
    recording: Recording,
) -> None:
    found = factors(recording(), "batch(factor=2.5)")
    assert found == {"addmm": 2.5, "mm": 2.5, "copy": 1.0, "sgd": 1.0}


def test_copies_before_the_first_wait_that_shows_do_not_grow_either(recording: Recording) -> None:
    assert factors(recording(unseen=70), "batch(factor=2)")["between ops"] == 1.0


def test_the_recorded_batch_changes_nothing(recording: Recording) -> None:
    assert set(factors(recording(), "batch(factor=1)").values()) == {1.0}


def test_kernels_grow_but_not_the_calls_that_launch_them() -> None:
    found = factors(training(TrainingJob(machine=MachineKind.GPU)), "batch(factor=2)")
    assert found["cudaLaunchKernel"] == found["copy"] == found["adam"] == 1.0
    assert found["addmm"] == found["mm"] == found["load"] == 2.0


def test_activations_between_tensor_parallel_ranks_grow_and_are_priced_anew() -> None:
    graph = training(TrainingJob(parallel=Parallel.TENSOR_DATA, tensor=2))
    made = parse("batch(factor=3)").transform(graph)
    sent = select(graph, "kind=collective,group~tensor.*")
    assert len(sent)
    assert (made.ops.size_bytes[sent] == 3 * graph.ops.size_bytes[sent]).all()
    assert (made.ops.dur_ns[sent] == UNPRICED).all()
    others = np.setdiff1d(np.arange(len(graph)), sent)
    assert (made.ops.size_bytes[others] == graph.ops.size_bytes[others]).all()


@pytest.mark.parametrize("factor", ["0", "-1.0"])
def test_a_batch_of_nothing_is_refused(factor: str) -> None:
    with pytest.raises(StrategyError, match="give more than 0"):
        parse(f"batch(factor={factor})")
