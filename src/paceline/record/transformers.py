"""Hugging Face: `Trainer(callbacks=[RecordCallback("runs/a")])` records steady steps of `train`."""

from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from paceline.record.torch_job import recording
from paceline.record.torch_recorder import RecorderSettings


class RecordCallback(TrainerCallback):
    """Opens a recording when training begins and closes it when training ends.

    The Trainer tells its callbacks nothing of an exception: the recording is then closed, as
    "short", when the process ends.
    """

    def __init__(self, folder: str | PathLike[str], steps: int = 10, plain: int = 5) -> None:
        self._recording = recording(RecorderSettings(Path(folder), steps, plain))
        self._open = ExitStack()

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._open.enter_context(self._recording)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._open.close()
