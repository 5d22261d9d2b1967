"""Lightning: `Trainer(callbacks=[RecordCallback("runs/a")])` records steady steps of `fit`."""

from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback

from paceline.record.torch_job import recording
from paceline.record.torch_recorder import RecorderSettings


class RecordCallback(Callback):
    """Opens a recording when training starts and closes it when training ends, however it ends."""

    def __init__(self, folder: str | PathLike[str], steps: int = 10, plain: int = 5) -> None:
        self._recording = recording(RecorderSettings(Path(folder), steps, plain))
        self._open = ExitStack()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._open.enter_context(self._recording)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._open.close()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._open.__exit__(type(exception), exception, exception.__traceback__)
