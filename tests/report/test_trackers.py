"""Figures in the real files of trackers; each tracker without the packages of the others."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from paceline.history import Predicted
from paceline.report.trackers import measured_figures, prediction_figures, step_figures
from paceline.report.trackers.figures import compared_figures
from paceline.verify import Measured

MS = 1_000_000
EXPECTED = Predicted(100 * MS, 95 * MS, 105 * MS)
SEEN = Measured((80 * MS, 80 * MS, 80 * MS), {})
FIGURES = compared_figures(EXPECTED, SEEN)


def test_figures_are_in_ms_and_the_error_is_predicted_over_measured() -> None:
    assert {
        **prediction_figures(EXPECTED),
        **measured_figures(SEEN),
        "paceline/error": 0.25,
        "paceline/within": 0.0,
    } == FIGURES
    assert FIGURES["paceline/predicted_ms"] == 100.0
    assert FIGURES["paceline/measured_ms"] == 80.0
    assert step_figures(3 * MS) == {"paceline/step_ms": 3.0}


@pytest.mark.needs("tensorboard")
@pytest.mark.filterwarnings("ignore")  # TensorBoard's own
def test_tensorboard_shows_them_at_their_step(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    from paceline.report.trackers.tensorboard import TensorBoard

    tracker = TensorBoard(tmp_path)
    tracker(FIGURES, 7)
    tracker(step_figures(3 * MS), 8)
    events = EventAccumulator(str(tmp_path)).Reload()
    assert set(events.Tags()["tensors"]) == {*FIGURES, "paceline/step_ms"}
    (error,) = events.Tensors("paceline/error")
    assert (error.step, float(make_ndarray(error.tensor_proto))) == (7, 0.25)


def test_a_writer_of_the_training_itself_is_used_as_it_is() -> None:
    from paceline.report.trackers.tensorboard import TensorBoard

    told: list[tuple[str, float, int]] = []

    class Writer:
        def add_scalar(self, name: str, value: float, step: int) -> None:
            told.append((name, value, step))

        def flush(self) -> None:
            pass

    TensorBoard(Writer())(step_figures(MS), 3)
    assert told == [("paceline/step_ms", 1.0, 3)]


@pytest.mark.needs("mlflow")
@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_mlflow_keeps_them_in_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    import mlflow

    from paceline.report.trackers.mlflow import MLflow

    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with mlflow.start_run() as run:
        MLflow()(FIGURES, 7)
    MLflow(run.info.run_id)(step_figures(3 * MS), 8)
    kept = mlflow.tracking.MlflowClient().get_run(run.info.run_id).data.metrics
    assert kept == {**FIGURES, "paceline/step_ms": 3.0}
    files = {p.name for p in (tmp_path / "runs").rglob("metrics/paceline/*")}
    assert "error" in files


@pytest.mark.needs("wandb")
@pytest.mark.filterwarnings("ignore")  # W&B's own
def test_wandb_keeps_them_offline_with_an_axis_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import wandb

    from paceline.report.trackers.wandb import AXIS, WandB

    with pytest.raises(ValueError, match=r"wandb\.init"):
        WandB()
    monkeypatch.setenv("WANDB_SILENT", "true")
    with wandb.init(mode="offline", dir=str(tmp_path), project="paceline") as run:
        WandB()(FIGURES, 7)
        shown = dict(run.summary)
        WandB(run)(step_figures(3 * MS), 3)  # behind the last step: W&B's own axis would drop it
        assert run.summary["paceline/step_ms"] == 3.0
    assert shown["paceline/error"] == 0.25
    assert shown[AXIS] == 7
    assert list(tmp_path.rglob("*.wandb"))


@pytest.mark.parametrize("name", ["tensorboard", "wandb", "mlflow"])
def test_a_tracker_needs_no_package_but_its_own_and_torch_neither(name: str) -> None:
    """Its file is imported where none of the packages can be."""
    code = (
        "import sys\n"
        "for other in ('tensorboard', 'wandb', 'mlflow', 'torch', 'lightning', 'transformers'):\n"
        "    sys.modules[other] = None\n"
        f"import paceline.report.trackers.{name}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_tracker_is_any_function_of_figures_and_step() -> None:
    from paceline.trainers.watch import Watch

    told: list[tuple[Mapping[str, float], int]] = []
    watch = Watch([lambda figures, step: told.append((figures, step))], EXPECTED, warm=1)
    watch.begin(10)
    for step, now_ms in enumerate((0, 50, 130), start=11):
        watch.border(step, now_ms * MS)
    watch.pause()  # an evaluation
    watch.border(14, 900 * MS)
    watch.border(15, 980 * MS)
    seen = watch.end()
    assert seen == Measured((80 * MS, 80 * MS), {})
    assert told[0] == (prediction_figures(EXPECTED), 10)
    assert [step for _, step in told] == [10, 12, 13, 15, 15]
    assert told[-1][0] == FIGURES


def test_a_watch_that_saw_no_step_says_nothing() -> None:
    from paceline.trainers.watch import Watch

    watch = Watch([], None, warm=3)
    watch.begin(0)
    watch.border(1, 5)
    watch.border(2, 9)
    assert watch.end() is None
