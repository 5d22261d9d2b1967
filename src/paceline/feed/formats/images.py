"""JPEG and PNG: a file per image of height x width x 3 bytes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np

from paceline.feed.errors import FeedError
from paceline.feed.formats.format import Array, Format, Samples


class _Images(Format):
    package: ClassVar[str] = "PIL"
    images: ClassVar[bool] = True
    settings: ClassVar[dict[str, Any]] = {}

    def write(self, path: Path, samples: Sequence[Array], compression: str = "none") -> None:
        if len(samples) != 1 or samples[0].dtype != np.uint8 or samples[0].shape[2:] != (3,):
            told = ", ".join(f"{each.dtype} {each.shape}" for each in samples)
            raise FeedError(
                f"a {self.name} file holds one image of height x width x 3 bytes, not {told}; "
                "take raw, npz or another format for arrays"
            )
        image = self.library("PIL.Image").fromarray(np.ascontiguousarray(samples[0]))
        image.save(path, format=self.name.upper(), **self.settings)

    def open(self, file: BinaryIO) -> Samples:
        return _Image(self.library("PIL.Image"), file)


class Jpeg(_Images):
    name: ClassVar[str] = "jpeg"
    suffix: ClassVar[str] = ".jpg"
    settings: ClassVar[dict[str, Any]] = {"quality": 90}


class Png(_Images):
    name: ClassVar[str] = "png"
    suffix: ClassVar[str] = ".png"
    settings: ClassVar[dict[str, Any]] = {"compress_level": 1}
    broken: ClassVar[tuple[type[Exception], ...]] = (*Format.broken, SyntaxError)


class _Image:
    def __init__(self, library: Any, file: BinaryIO) -> None:
        self.library, self.file = library, file

    def __len__(self) -> int:
        return 1

    def __getitem__(self, place: int) -> Array:
        if place:
            raise ValueError(f"sample {place} of a file that holds one image")
        self.file.seek(0)
        with self.library.open(self.file) as image:
            return np.asarray(image.convert("RGB"))
