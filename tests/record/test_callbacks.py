"""Trainers' callbacks: a recording that opens with the training and closes with it."""

from pathlib import Path
from typing import Any

import pytest

from paceline.record.sidecar import Mode

pytest.importorskip("torch")

import torch

from paceline.record import sidecar
from paceline.record.sidecar import End, Step
from paceline.replay import replay
from paceline.trace.runs import build_run

pytestmark = pytest.mark.live
ROWS = 64


def recorded_steps(run: Path) -> int:
    told = sidecar.read(run / sidecar.facts_name(0))
    assert told.of(End)[-1].reason == "complete"
    return sum(step.mode is Mode.RECORDED for step in told.of(Step))


def rows() -> list[dict[str, torch.Tensor]]:
    return [{"x": torch.randn(4), "labels": torch.randn(1)} for _ in range(ROWS)]


@pytest.mark.filterwarnings("ignore")  # Lightning's own
def test_lightning_records_the_steps_of_fit(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning.pytorch", reason="lightning is not installed")
    from paceline.record.lightning import RecordCallback

    class Line(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(4, 1)

        def training_step(self, batch: dict[str, torch.Tensor], _: int) -> torch.Tensor:
            return (self.inner(batch["x"]) - batch["labels"]).square().mean()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[RecordCallback(tmp_path / "run", steps=3, plain=2)],
    )
    trainer.fit(Line(), torch.utils.data.DataLoader(rows(), batch_size=2))
    assert recorded_steps(tmp_path / "run") == 3
    assert replay(build_run(tmp_path / "run")).step_ns > 0


@pytest.mark.needs("transformers")
@pytest.mark.filterwarnings("ignore")  # the Trainer's own
def test_the_hugging_face_trainer_records_the_steps_of_train(tmp_path: Path) -> None:
    import transformers

    from paceline.record.transformers import RecordCallback

    class Line(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(4, 1)

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, Any]:
            guess = self.inner(x)
            return {"loss": (guess - labels).square().mean(), "logits": guess}

    settings = transformers.TrainingArguments(
        output_dir=str(tmp_path / "out"),
        per_device_train_batch_size=2,
        num_train_epochs=1,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer = transformers.Trainer(
        model=Line(),
        args=settings,
        train_dataset=rows(),
        callbacks=[RecordCallback(tmp_path / "run", steps=3, plain=2)],
    )
    trainer.train()
    assert recorded_steps(tmp_path / "run") == 3
    assert replay(build_run(tmp_path / "run")).step_ns > 0
