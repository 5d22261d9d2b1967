"""The fused step in a graph: one kernel a rank, behind the backward passes of all ranks."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from paceline.graph import UNPRICED, Graph, OpKind, check
from paceline.graph.facts import Optimizer
from paceline.strategies import StrategyError, parse

Recording = Callable[..., Graph]


def job(graph: Graph, kind: str = "Adam") -> Graph:
    return replace(graph, facts=replace(graph.facts, optimizer=Optimizer(kind)))


def test_buckets_waits_and_copies_go_and_one_kernel_stays(recording: Recording) -> None:
    made = check(parse("fused_step").transform(job(recording(2))))
    mine = [op.name for op in made if op.rank == 0]
    assert mine == ["addmm", "mm", "mm", "sgd"]
    assert not (made.ops.kind == OpKind.COLLECTIVE).any()


def test_the_kernel_waits_for_every_ranks_gradients(recording: Recording) -> None:
    made = parse("fused_step").transform(job(recording(3)))
    for op in made:
        if op.name == "sgd":
            assert {made[src].rank for src in op.deps} == {0, 1, 2}
            assert op.dur_ns == UNPRICED


@pytest.mark.parametrize(("kind", "tensors"), [("SGD", 7), ("Adam", 9), ("Lamb", 9)])
def test_the_kernel_moves_a_ranks_share_of_gradients_weights_and_state(
    recording: Recording, kind: str, tensors: int
) -> None:
    """On two ranks: two gradients, weights and state read, state and two weights written."""
    made = parse("fused_step").transform(job(recording(2), kind))
    kernels = np.flatnonzero(made.ops.dur_ns == UNPRICED)
    assert made.ops.size_bytes[kernels].tolist() == [1000 * tensors // 2] * 2


def test_an_optimizer_without_a_fused_step_is_refused(recording: Recording) -> None:
    with pytest.raises(StrategyError, match="there is no fused step for Adadelta"):
        parse("fused_step").transform(job(recording(2), "Adadelta"))
