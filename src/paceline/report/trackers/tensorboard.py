"""TensorBoard: figures as scalars, beside those that the training writes itself."""

from collections.abc import Mapping
from os import PathLike
from typing import Any


class TensorBoard:
    """Writes to a folder (needs `tensorboard`), or with the training's own writer, which has
    `add_scalar` as torch's SummaryWriter has."""

    def __init__(self, given: str | PathLike[str] | Any) -> None:
        if isinstance(given, (str, PathLike)):
            from tensorboard.summary import Writer

            given = Writer(str(given))
        self._writer = given

    def __call__(self, figures: Mapping[str, float], step: int) -> None:
        for name, value in figures.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()
