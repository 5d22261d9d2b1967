"""Raw binary: bytes of arrays one behind the other, behind a head that says where and what.

    8 bytes "PLRAW001" | 8 bytes: length of the head | head: JSON | arrays, each at a 64th byte

Values have no checksum: of a damaged file only a broken head or a missing end is seen.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Final

import numpy as np

from paceline.feed.formats.format import Array, Format, Samples, from_bytes

_MAGIC: Final = b"PLRAW001"
_ALIGNED: Final = 64
_LONGEST_HEAD: Final = 1 << 28


class Raw(Format):
    name: ClassVar[str] = "raw"
    suffix: ClassVar[str] = ".bin"
    broken: ClassVar[tuple[type[Exception], ...]] = (*Format.broken, KeyError, TypeError)

    def write(self, path: Path, samples: Sequence[Array], compression: str = "none") -> None:
        rows: list[dict[str, Any]] = []
        at = 0
        for each in samples:
            rows.append({"at": at, "dtype": each.dtype.str, "shape": list(each.shape)})
            at += _padded(each.nbytes)
        head = json.dumps(rows).encode()
        head += b" " * (_padded(len(head) + 16) - len(head) - 16)
        with path.open("wb") as file:
            file.write(_MAGIC + len(head).to_bytes(8, "little") + head)
            for each in samples:
                file.write(np.ascontiguousarray(each).tobytes())
                file.write(bytes(_padded(each.nbytes) - each.nbytes))

    def open(self, file: BinaryIO) -> Samples:
        start = file.read(16)
        length = int.from_bytes(start[8:], "little")
        if start[:8] != _MAGIC or length > _LONGEST_HEAD:
            raise ValueError("no raw file: it does not begin with PLRAW001")
        return _Arrays(file, json.loads(file.read(length)), 16 + length)


def _padded(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


class _Arrays:
    def __init__(self, file: BinaryIO, rows: list[dict[str, Any]], begin: int) -> None:
        self.file, self.rows, self.begin = file, rows, begin

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> Array:
        row = self.rows[place]
        size = int(np.prod(row["shape"], dtype=np.int64)) * np.dtype(row["dtype"]).itemsize
        self.file.seek(self.begin + int(row["at"]), os.SEEK_SET)
        return from_bytes(self.file.read(size), row["dtype"], row["shape"])
