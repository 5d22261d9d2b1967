"""Two workers of a trainer under DDP, with gradients sent as fp16: what was sent goes to a file.

python ddp_worker.py lightning|transformers FOLDER
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

PLAN = ["fp16"]
BATCHES = 6


def rows() -> list[dict[str, torch.Tensor]]:
    return [{"x": torch.randn(4), "labels": torch.randn(1)} for _ in range(2 * BATCHES)]


def with_lightning(folder: Path) -> Any:
    import lightning.pytorch as lightning

    from paceline.trainers.lightning import ApplyCallback

    class Line(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(4, 1)

        def training_step(self, batch: dict[str, torch.Tensor], _: int) -> torch.Tensor:
            return (self.inner(batch["x"]) - batch["labels"]).square().mean()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    apply = ApplyCallback(PLAN)
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", devices=2, strategy="ddp", logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        callbacks=[apply],
    )  # fmt: skip
    trainer.fit(Line(), torch.utils.data.DataLoader(rows(), batch_size=1))
    return apply.sent


def with_transformers(folder: Path) -> Any:
    import transformers

    from paceline.trainers.transformers import ApplyCallback

    class Line(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(4, 1)

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, Any]:
            guess = self.inner(x)
            return {"loss": (guess - labels).square().mean(), "logits": guess}

    settings = transformers.TrainingArguments(
        output_dir=str(folder / "out"), per_device_train_batch_size=1, num_train_epochs=1,
        use_cpu=True, ddp_backend="gloo", report_to=[], save_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    apply = ApplyCallback(PLAN)
    trainer = transformers.Trainer(
        model=Line(), args=settings, train_dataset=rows(), callbacks=[apply]
    )
    trainer.train()
    return apply.sent


def main() -> None:
    folder = Path(sys.argv[2])
    sent = {"lightning": with_lightning, "transformers": with_transformers}[sys.argv[1]](folder)
    told = {"steps": sent.steps, **sent.a_step()}
    (folder / f"rank-{os.environ['RANK']}.json").write_text(json.dumps(told))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
