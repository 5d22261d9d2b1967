"""HDF5: a data set per sample, in one chunk where it is compressed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from paceline.feed.formats.format import Array, Format, Samples


class Hdf5(Format):
    name: ClassVar[str] = "hdf5"
    suffix: ClassVar[str] = ".h5"
    package: ClassVar[str] = "h5py"
    compressions: ClassVar[tuple[str, ...]] = ("gzip",)
    broken: ClassVar[tuple[type[Exception], ...]] = (*Format.broken, KeyError, RuntimeError)

    def write(self, path: Path, samples: Sequence[Array], compression: str = "none") -> None:
        with self.library().File(path, "w") as file:
            for place, each in enumerate(samples):
                packed = {"compression": compression, "chunks": each.shape}
                settings = packed if compression != "none" and each.size and each.ndim else {}
                file.create_dataset(str(place), data=each, fletcher32=bool(settings), **settings)

    def open(self, file: BinaryIO) -> Samples:
        return _Sets(self.library().File(file, "r"))


class _Sets:
    def __init__(self, file: Any) -> None:
        self.file = file

    def __len__(self) -> int:
        return len(self.file)

    def __getitem__(self, place: int) -> Array:
        found: Array = self.file[str(place)][()]
        return found
