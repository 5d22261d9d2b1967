"""NumPy's archives: a zip file with an array per member, stored or deflated."""

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Final

import numpy as np

from paceline.feed.formats.format import Array, Format, Samples

_NAMED: Final = "sample_{}"


class Npz(Format):
    name: ClassVar[str] = "npz"
    suffix: ClassVar[str] = ".npz"
    compressions: ClassVar[tuple[str, ...]] = ("gzip",)
    broken: ClassVar[tuple[type[Exception], ...]] = (
        *Format.broken, zipfile.BadZipFile, zlib.error, KeyError,
    )  # fmt: skip

    def write(self, path: Path, samples: Sequence[Array], compression: str = "none") -> None:
        save = np.savez if compression == "none" else np.savez_compressed
        with path.open("wb") as file:
            save(file, **{_NAMED.format(i): each for i, each in enumerate(samples)})  # type: ignore[arg-type]

    def open(self, file: BinaryIO) -> Samples:
        return _Members(np.load(file, allow_pickle=False))


class _Members:
    def __init__(self, archive: Any) -> None:
        self.archive = archive

    def __len__(self) -> int:
        return len(self.archive.files)

    def __getitem__(self, place: int) -> Array:
        found: Array = self.archive[_NAMED.format(place)]
        return found
