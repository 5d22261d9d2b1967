"""Gradients inside `fused_step`, on real workers: what reads or changes them trains as plain DDP
does, or is refused."""

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the fused step trains torch models")

from paceline.weave.cpu import compile as compiling
from paceline.weave.host import HostSettings

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(
        compiling.compiler(HostSettings.here()) is None, reason="no C++ compiler here"
    ),
]


def run(case: str, start_workers, folder: Path, ranks: int = 2) -> None:
    start_workers("gradient_worker.py", ranks, folder / "meeting", case)


def test_clipping_by_norm_trains_as_plain_ddp_does(start_workers, tmp_path) -> None:
    run("clipping", start_workers, tmp_path)


def test_any_other_clipping_trains_as_plain_ddp_does(start_workers, tmp_path) -> None:
    run("other_clipping", start_workers, tmp_path)


def test_clipping_returns_the_norm_of_the_averaged_gradient(start_workers, tmp_path) -> None:
    run("norms", start_workers, tmp_path, ranks=3)


def test_gradients_that_come_after_clipping_are_added_to_clipped_ones(
    start_workers, tmp_path
) -> None:
    run("accumulated", start_workers, tmp_path)


def test_averaged_gradients_may_be_read_and_changed(start_workers, tmp_path) -> None:
    run("averaged", start_workers, tmp_path)


def test_a_gradient_scaler_works_on_averages_and_is_refused_on_parts(
    start_workers, tmp_path
) -> None:
    run("scaled", start_workers, tmp_path)


def test_reading_or_changing_one_workers_part_is_refused(start_workers, tmp_path) -> None:
    run("refused", start_workers, tmp_path)


def test_hooks_of_parameters_train_as_under_plain_ddp(start_workers, tmp_path) -> None:
    run("hooks", start_workers, tmp_path)


def test_a_worker_that_clips_alone_ends_with_an_error(start_workers, tmp_path) -> None:
    run("alone", start_workers, tmp_path)


def test_torchs_own_clipping_is_back_after_the_context(start_workers, tmp_path) -> None:
    run("restored", start_workers, tmp_path)
