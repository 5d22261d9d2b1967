"""Messages between the server and its instances: a small header as JSON, then arrays as raw bytes.

4 bytes: length of the header · 8 bytes: length of the arrays · header · arrays
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

Arrays = Mapping[str, npt.NDArray[Any]]
LENGTHS: Final = struct.Struct("<IQ")
ALIGNED: Final = 16


class Header(msgspec.Struct, omit_defaults=True):
    """What a message is, and which arrays follow: name, type and shape of each."""

    kind: str
    facts: dict[str, Any] = {}  # msgspec copies the default of each message
    arrays: list[tuple[str, str, tuple[int, ...]]] = []


@dataclass(frozen=True)
class Message:
    kind: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    arrays: Arrays = field(default_factory=dict)


def packed(message: Message) -> list[bytes | memoryview]:
    """The message as chunks to be written one after the other; arrays are not copied."""
    arrays = {name: np.ascontiguousarray(array) for name, array in message.arrays.items()}
    told = [(name, array.dtype.str, array.shape) for name, array in arrays.items()]
    header = msgspec.json.encode(Header(message.kind, dict(message.facts), told))
    size = sum(_room(array) for array in arrays.values())
    return [LENGTHS.pack(len(header), size), header, *_chunks(arrays)]


def unpacked(header: bytes, body: bytes | bytearray) -> Message:
    """The arrays are views of the body."""
    told, arrays, at = msgspec.json.decode(header, type=Header), {}, 0
    for name, kind, shape in told.arrays:
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(body, np.dtype(kind), count, at)
        arrays[name] = array.reshape(shape)
        at += _room(array)
    return Message(told.kind, told.facts, arrays)


def _chunks(arrays: Arrays) -> Iterator[bytes | memoryview]:
    for array in arrays.values():
        yield array.reshape(-1).view(np.uint8).data
        yield bytes(_room(array) - array.nbytes)


def _room(array: npt.NDArray[Any]) -> int:
    """Bytes of an array with what aligns the next one."""
    return array.nbytes + -array.nbytes % ALIGNED
