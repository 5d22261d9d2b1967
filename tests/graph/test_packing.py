"""Gradients in another form: how many bytes travel, and how many are unpacked."""

import pytest

from paceline.graph import Collective, Graph, check, select
from paceline.graph.synthetic import TrainingJob, training
from paceline.strategies import parse

WORKERS = 3
GRADIENTS = 1 << 18  # values of a bucket


def packed(plan: str) -> Graph:
    job = TrainingJob(workers=WORKERS, layers=1, weight_bytes=4 * GRADIENTS - 4, bias_bytes=4)
    return check(parse(plan).transform(training(job)))


def sizes(graph: Graph, expression: str) -> set[int]:
    return set(graph.ops.size_bytes[select(graph, expression)].tolist())


def test_payloads_that_cannot_be_added_up_are_gathered_from_every_rank() -> None:
    """A place and a value of 4 bytes for each of a hundredth of the gradients, of three ranks."""
    graph = packed("topk(ratio=0.01)")
    payload = 8 * round(0.01 * GRADIENTS)
    gathers = graph.ops.collective == Collective.ALL_GATHER
    assert (
        graph.ops.size_bytes[gathers].tolist()
        == [pytest.approx(WORKERS * payload, rel=1e-3)] * WORKERS
    )
    (unpacked,) = sizes(graph, "name~unpack")
    assert unpacked == pytest.approx(4 * GRADIENTS + WORKERS * payload, rel=1e-3)


def test_payloads_that_are_added_up_on_the_way_are_one() -> None:
    graph = packed("bf16")
    assert sizes(graph, "kind=collective") == {2 * GRADIENTS}
    assert sizes(graph, "name~unpack") == {4 * GRADIENTS + 2 * GRADIENTS}


def test_dense_payloads_are_added_up_one_after_the_other() -> None:
    """Zeros, then all gradients read and written for each rank's eight bits."""
    (unpacked,) = sizes(packed("int8"), "name~add up")
    assert unpacked == 4 * GRADIENTS * (1 + 2 * WORKERS) + WORKERS * (GRADIENTS + 4)
