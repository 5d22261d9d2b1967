"""A strategy that is left, or that breaks, leaves the job as it was."""

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.live
Runs = list[dict[str, Any]]


def test_leaving_a_strategy_restores_the_job_and_its_checkpoints(
    left: str, runs: Runs, beside: Callable[[str], str]
) -> None:
    for run in runs:
        assert run[left]["after"] == run[left]["fresh"]
        assert run[left]["keys"] == run[beside(left)]["keys"]


def test_the_optimizers_of_workers_that_trained_alone_are_alike_after_leaving(runs: Runs) -> None:
    assert runs[0]["states"] == runs[1]["states"]
    assert all(any(held) for held in runs[0]["states"].values())


def test_after_an_error_workers_that_trained_alone_share_gradients_again(runs: Runs) -> None:
    assert runs[0]["raised"] == runs[1]["raised"]
    assert any(runs[0]["raised"])


def test_a_static_graph_shares_its_gradients_in_every_step(runs: Runs) -> None:
    assert all(run["static"] for run in runs)


def test_a_plan_that_breaks_on_its_way_leaves_the_job_as_it_was(runs: Runs) -> None:
    for run in runs:
        assert "workers(count=99) cannot be switched on" in run["broken"]["said"]
        assert run["broken"]["after"]
