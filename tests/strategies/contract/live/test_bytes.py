"""The bytes that workers send under a strategy are those that its graph says."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from paceline.graph import Graph, OpKind
from paceline.strategies import parse

if TYPE_CHECKING:
    from conftest import Drawn

pytestmark = pytest.mark.live
Runs = list[dict[str, Any]]

LARGEST_BYTES = 4 * 64 * 64
MODEL_BYTES = 4 * (20 * 64 + 64 + 64 * 64 + 64 + 64 * 4 + 4)  # of the worker's model


@pytest.fixture
def drawn(drawn: "Drawn") -> "Drawn":
    """The worker's model, in one bucket, its largest parameter apart."""
    return replace(drawn, first_bytes=MODEL_BYTES - LARGEST_BYTES, second_bytes=LARGEST_BYTES)


@pytest.mark.parametrize(
    "name",
    [
        *("accumulate", "early_update", "hierarchical", "overlap_update"),
        *("parameter_server", "partition", "priority", "zero1"),
        pytest.param("bounded_loss", marks=pytest.mark.needs("native")),
    ],
)
def test_what_carries_gradients_otherwise_sends_the_predicted_bytes(
    name: str,
    runs: Runs,
    applied: Mapping[str, str],
    steps: int,
    recording: Callable[..., Graph],
) -> None:
    made = parse(applied[name]).transform(recording(2))
    talks = (made.ops.kind == OpKind.COLLECTIVE) & (made.ops.rank == 0)
    talks &= made.ops.step == made.ops.step.max()
    sent: Mapping[str, float] = runs[0][applied[name]]["sent"]
    assert sent["steps"] == steps / made.facts.samples
    assert sent["payload_bytes"] == made.ops.size_bytes[talks].sum()
    assert sent["calls"] == talks.sum()


def test_the_bytes_that_travel_are_the_predicted_ones(
    sending: str, runs: Runs, steps: int, worker_graph: Graph
) -> None:
    made = parse(sending).transform(worker_graph)
    talks = (made.ops.kind == OpKind.COLLECTIVE) & (made.ops.rank == 0)
    sent: Mapping[str, float] = runs[0][sending]["sent"]
    assert sent["steps"] == steps
    drawn_steps = len(np.unique(made.ops.step))
    assert sent["calls"] == talks.sum() / drawn_steps
    assert sent["payload_bytes"] == made.ops.size_bytes[talks].sum() / drawn_steps


def test_gradients_of_layers_that_are_made_otherwise_are_the_predicted_ones(
    of_layers: str, runs: Runs, applied: Mapping[str, str], steps: int, worker_model: Graph
) -> None:
    made = parse(applied[of_layers]).transform(worker_model)
    talks = (made.ops.kind == OpKind.COLLECTIVE) & (made.ops.rank == 0)
    sent: Mapping[str, float] = runs[0][applied[of_layers]]["sent"]
    assert sent["steps"] == steps
    assert sent["calls"] == talks.sum()
    assert sent["payload_bytes"] == made.ops.size_bytes[talks].sum()


def test_weights_cut_in_blocks_are_gathered_and_reduced_in_the_predicted_calls(
    runs: Runs, applied: Mapping[str, str], steps: int, worker_model: Graph
) -> None:
    made = parse("fully_sharded").transform(worker_model)
    talks = (made.ops.kind == OpKind.COLLECTIVE) & (made.ops.rank == 0)
    sent: Mapping[str, float] = runs[0][applied["fully_sharded"]]["sent"]
    assert sent["steps"] == steps
    assert sent["calls"] == talks.sum() == 3 * 3
    assert sent["payload_bytes"] == made.ops.size_bytes[talks].sum()
