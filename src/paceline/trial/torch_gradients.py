"""The probe in a live job: squared lengths of each rank's own gradient and of the mean of all.

A hook on each parameter sees the gradient of a pass before the exchange adds it up; at the
optimizer's step the parameters hold the mean of all ranks. Nothing of the job is changed.

Wrong where gradients are clipped or scaled before the step (a GradScaler), where ranks hold shards
(FSDP), and where an exchange drops or holds back a part of the gradients.
"""

import atexit
import os
from pathlib import Path
from typing import Any

import msgspec
import torch
import torch.distributed as dist
from torch.optim import optimizer as torch_optimizer

from paceline.trial.gradients import (
    VARIABLE,
    Began,
    End,
    GradientLine,
    GradientStep,
    ProbeSettings,
    encode,
    file_of,
)


def start_from_environment() -> "GradientProbe":
    """What the injected hook calls once torch is there."""
    probe = GradientProbe(msgspec.json.decode(os.environ[VARIABLE], type=ProbeSettings))
    probe.listen()
    return probe


class GradientProbe:
    """One rank's, over the steps of the optimizer that steps first."""

    def __init__(self, settings: ProbeSettings) -> None:
        self._settings = settings
        self._lead: int | None = None
        self._file: Any = None
        self._alone: list[Any] = []  # squared lengths by parameter, of all passes of this step
        self._passes: dict[int, int] = {}  # by parameter, in this step
        self._steps = 0
        self._hooks: list[Any] = []  # on parameters

    def listen(self) -> None:
        torch_optimizer.register_optimizer_step_pre_hook(self._before_update)
        atexit.register(self.finish, "short")

    def finish(self, reason: str) -> None:
        """Take the hooks off parameters, and write the last line. Only the first call counts."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        if self._file is not None:
            self._write(End(reason))
            self._file.close()
            self._file = None

    def _before_update(self, optimizer: Any, *_: Any) -> None:
        if self._lead is None:
            self._lead = id(optimizer)
            self._begin(optimizer)
        elif id(optimizer) == self._lead and self._passes and self._file is not None:
            self._note(optimizer)

    def _begin(self, optimizer: Any) -> None:
        """The first step's passes are over, so the second is the first that counts."""
        rank, world = (dist.get_rank(), dist.get_world_size()) if _joined() else (0, 1)
        folder = Path(self._settings.folder)
        self._file = file_of(folder, rank).open("wb", buffering=0)
        self._write(Began(rank, world))
        for parameter in _trained(optimizer):
            self._hooks.append(parameter.register_hook(self._noting(id(parameter))))

    def _noting(self, parameter: int) -> Any:
        def note(gradient: Any) -> None:
            self._alone.append(_square(gradient))
            self._passes[parameter] = self._passes.get(parameter, 0) + 1

        return note

    def _note(self, optimizer: Any) -> None:
        """A step over several passes holds their sum."""
        passes = max(self._passes.values())
        whole = sum(float(_square(p.grad)) for p in _trained(optimizer) if p.grad is not None)
        alone = float(torch.stack(self._alone).sum()) / passes
        self._write(GradientStep(self._steps, alone, whole / passes**2, passes))
        self._alone, self._passes = [], {}
        self._steps += 1
        if self._steps >= self._settings.steps:
            self.finish("complete")

    def _write(self, line: GradientLine) -> None:
        self._file.write(encode(line) + b"\n")


def _trained(optimizer: Any) -> list[Any]:
    return [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]


def _square(gradient: Any) -> Any:
    return gradient.detach().double().square().sum()


def _joined() -> bool:
    return bool(dist.is_available() and dist.is_initialized())
