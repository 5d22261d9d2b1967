"""`Format`: how samples lie in a file."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from paceline.feed.errors import FeedError

Array = NDArray[Any]


class Samples(Protocol):
    """An open file's samples. They are read where they are asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: int) -> Array: ...


class Format(ABC):
    """One kind of file."""

    name: ClassVar[str]
    suffix: ClassVar[str]
    package: ClassVar[str] = ""  # what it needs beside numpy
    images: ClassVar[bool] = False  # one image of height x width x 3 bytes per file
    compressions: ClassVar[tuple[str, ...]] = ()
    broken: ClassVar[tuple[type[Exception], ...]] = (OSError, ValueError, EOFError)
    """What reading a damaged file raises."""

    @abstractmethod
    def write(self, path: Path, samples: Sequence[Array], compression: str = "none") -> None: ...

    @abstractmethod
    def open(self, file: BinaryIO) -> Samples: ...

    def library(self, module: str = "") -> Any:
        """The package, or what to do without it."""
        try:
            return import_module(module or self.package)
        except ImportError as error:
            raise FeedError(
                f"{self.name} files need {self.package}, which is not installed: "
                "pip install 'paceline[io]'"
            ) from error


def from_bytes(data: Any, dtype: str, shape: Sequence[int]) -> Array:
    """An array on these bytes; ValueError where they are not as many as the shape has."""
    return np.frombuffer(data, np.dtype(dtype)).reshape(tuple(shape))
