"""What is counted beside a recording, from figures drawn by hand."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from benchmarks.accuracy.jobs.suite_memory import tensors_of, told  # noqa: E402

BUILT = 100
CURVE = [(90, 500), (110, 540), (130, 560), (150, 900), (170, 560)]
"""A model of 50 bytes and data of 450; then optimizer state of 40, gradients of 20, and a pass that
holds 340 for a while."""


def seen(batch: int) -> SimpleNamespace:
    sizes = {"weights": 50, "gradients": 20, "optimizer": 40}
    return SimpleNamespace(built_ns=BUILT, borders=[140, 180], backwards=[150], sizes=sizes,
                           batch=batch)  # fmt: skip


def test_a_data_set_of_which_batches_are_copies_is_taken_off() -> None:
    assert told(seen(batch=0), CURVE)["peak"] == 50 + 40 + 20 + 340


def test_the_batch_counts_where_it_is_the_data_set_itself() -> None:
    """As the graph of a full-graph network, of which every step takes all."""
    found = told(seen(batch=450), CURVE)
    assert found["peak"] == 50 + 40 + 20 + 340 + 450
    assert found["activations"] == 900 - 50 - 40


@dataclass
class Part:
    nodes: torch.Tensor
    edges: tuple[torch.Tensor, ...]
    count: int = 3


def test_a_batchs_tensors_are_found_in_fields_and_rows() -> None:
    part = Part(torch.zeros(3), (torch.zeros(2), torch.zeros(1)))
    assert [len(tensor) for tensor in tensors_of([part])] == [3, 2, 1]
    assert [len(tensor) for tensor in tensors_of(torch.zeros(4))] == [4]
