"""Callbacks in real trainers: a plan is in force while they train, steps are watched."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paceline.history import Predicted

pytest.importorskip("torch")

import torch

MS = 1_000_000
EXPECTED = Predicted(100 * MS, 95 * MS, 105 * MS)
PLAN = ["fused_optimizer"]
STEPS = 8

pytestmark = pytest.mark.live


class Told:
    """A tracker that keeps what it is told."""

    def __init__(self) -> None:
        self.names: list[set[str]] = []

    def __call__(self, figures: Any, step: int) -> None:
        self.names.append(set(figures))


def rows() -> list[dict[str, torch.Tensor]]:
    return [{"x": torch.randn(4), "labels": torch.randn(1)} for _ in range(STEPS)]


def require_told(told: Told) -> None:
    assert told.names[0] == {f"paceline/predicted{end}" for end in ("_ms", "_low_ms", "_high_ms")}
    assert told.names[1:-1] == [{"paceline/step_ms"}] * (STEPS - 1)
    assert "paceline/error" in told.names[-1]


@pytest.mark.needs("lightning")
@pytest.mark.filterwarnings("ignore")  # Lightning's own
def test_lightning_trains_under_a_plan_and_tells_its_steps() -> None:
    import lightning.pytorch as lightning

    from paceline.trainers.lightning import ApplyCallback, WatchCallback

    fused = list[bool]()

    class Line(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(4, 1)

        def training_step(self, batch: dict[str, torch.Tensor], _: int) -> torch.Tensor:
            fused.append(bool(self.optimizers().optimizer.param_groups[0]["fused"]))
            return (self.inner(batch["x"]) - batch["labels"]).square().mean()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            self.made = torch.optim.SGD(self.parameters(), lr=0.01)
            return self.made

    told, model = Told(), Line()
    apply, watch = ApplyCallback(PLAN), WatchCallback([told], EXPECTED, warm=2)
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, callbacks=[apply, watch],
    )  # fmt: skip
    trainer.fit(model, torch.utils.data.DataLoader(rows(), batch_size=1))
    assert fused == [True] * STEPS
    assert not model.made.param_groups[0]["fused"]
    require_told(told)
    assert watch.measured is not None
    assert len(watch.measured.steps_ns) == STEPS - 1 - 2


@pytest.mark.needs("transformers")
@pytest.mark.filterwarnings("ignore")  # the Trainer's own
def test_the_hugging_face_trainer_trains_under_a_plan_and_tells_its_steps(tmp_path: Path) -> None:
    import transformers

    from paceline.trainers.transformers import ApplyCallback, WatchCallback

    fused = list[bool]()
    model = torch.nn.Linear(4, 1)
    made = torch.optim.SGD(model.parameters(), lr=0.01)

    class Line(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, Any]:
            fused.append(bool(made.param_groups[0]["fused"]))
            guess = self.inner(x)
            return {"loss": (guess - labels).square().mean(), "logits": guess}

    settings = transformers.TrainingArguments(
        output_dir=str(tmp_path / "out"), per_device_train_batch_size=1, num_train_epochs=1,
        use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    told = Told()
    apply, watch = ApplyCallback(PLAN), WatchCallback([told], EXPECTED, warm=2)
    trainer = transformers.Trainer(
        model=Line(), args=settings, train_dataset=rows(), optimizers=(made, None),
        callbacks=[apply, watch],
    )  # fmt: skip
    trainer.train()
    assert fused == [True] * STEPS
    assert not made.param_groups[0]["fused"]
    require_told(told)
    assert watch.measured is not None
    assert len(watch.measured.steps_ns) == STEPS - 1 - 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.needs(n)) for n in ("lightning", "transformers")],
)
def test_gradients_of_two_workers_are_sent_as_the_plan_says(name: str, tmp_path: Path) -> None:
    worker = Path(__file__).with_name("ddp_worker.py")
    launch = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2")
    done = subprocess.run(
        [*launch, str(worker), name, str(tmp_path)], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    told = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("rank-*.json"))]
    assert [(each["steps"], each["wire_bytes"]) for each in told] == [(6, 5 * 2)] * 2
