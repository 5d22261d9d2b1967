"""TFRecord, without TensorFlow: framed records, each a protobuf `Example`.

    8 bytes: length | 4: its masked CRC-32C | the record | 4: the record's masked CRC-32C

An example has the features `data` (the array's bytes), `shape` and `dtype`. Both checksums are
verified, as TensorFlow's reader does.
"""

import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, ClassVar, Final

import numpy as np

from paceline.feed.formats.crc32c import crc32c
from paceline.feed.formats.example import example, features
from paceline.feed.formats.format import Array, Format, Samples, from_bytes

_HEAD: Final = struct.Struct("<QI")
_TAIL: Final = struct.Struct("<I")


class TfRecord(Format):
    name: ClassVar[str] = "tfrecord"
    suffix: ClassVar[str] = ".tfrecord"
    broken: ClassVar[tuple[type[Exception], ...]] = (*Format.broken, KeyError, IndexError)

    def write(self, path: Path, samples: Sequence[Array], compression: str = "none") -> None:
        with path.open("wb") as file:
            for each in samples:
                record = example(
                    {
                        "data": np.ascontiguousarray(each).tobytes(),
                        "dtype": each.dtype.str.encode(),
                        "shape": tuple(each.shape),
                    }
                )
                length = struct.pack("<Q", len(record))
                file.write(length + _TAIL.pack(masked(crc32c(length))))
                file.write(record + _TAIL.pack(masked(crc32c(record))))

    def open(self, file: BinaryIO) -> Samples:
        return _Records(file, list(_places(file)))


def masked(crc: int) -> int:
    """TensorFlow rotates checksums, since a checksum of data that holds one tells little."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


class _Records:
    def __init__(self, file: BinaryIO, places: list[tuple[int, int]]) -> None:
        self.file, self.places = file, places

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, place: int) -> Array:
        at, length = self.places[place]
        self.file.seek(at, os.SEEK_SET)
        content = self.file.read(length + _TAIL.size)
        record, tail = memoryview(content)[:length], content[length:]
        if len(tail) < _TAIL.size or _TAIL.unpack(tail)[0] != masked(crc32c(record)):
            raise ValueError(f"record {place} does not have its checksum")
        found = features(record)
        data, dtype = found["data"], found["dtype"]
        assert isinstance(data, memoryview)
        assert isinstance(dtype, memoryview)
        shape = found["shape"]
        return from_bytes(data, bytes(dtype).decode(), [int(each) for each in shape])


def _places(file: BinaryIO) -> Iterator[tuple[int, int]]:
    """(first byte, length) of each record: heads are read, records skipped."""
    end = file.seek(0, os.SEEK_END)
    at = 0
    while at < end:
        file.seek(at, os.SEEK_SET)
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            raise ValueError(f"the file ends within a record's head, at byte {at}")
        length, checksum = _HEAD.unpack(head)
        if checksum != masked(crc32c(head[:8])):
            raise ValueError(f"the length of the record at byte {at} does not have its checksum")
        yield at + _HEAD.size, length
        at += _HEAD.size + length + _TAIL.size
