"""`Message`: what travels between clients, in the very form that its bytes are counted in."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.learn.errors import LearnError

SERVER = -1
"""The server's number, where clients count from 0."""

_NUMBER_BYTES = 8


@dataclass(frozen=True, eq=False)
class Message:
    """Arrays by name, and single numbers. Both count; names do not."""

    vectors: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        return sum(v.nbytes for v in self.vectors.values()) + _NUMBER_BYTES * len(self.numbers)

    @property
    def sound(self) -> bool:
        """No number in it is infinite or not a number."""
        finite = all(np.isfinite(v).all() for v in self.vectors.values() if v.dtype.kind == "f")
        return finite and bool(np.isfinite(list(self.numbers.values())).all())


def packed(message: Message) -> bytes:
    """One message as bytes: a line that describes it, then its arrays."""
    vectors = {name: np.ascontiguousarray(v) for name, v in message.vectors.items()}
    head = {
        "vectors": {name: [v.dtype.str, list(v.shape)] for name, v in vectors.items()},
        "numbers": {name: float(value).hex() for name, value in message.numbers.items()},
    }
    return b"".join([json.dumps(head).encode(), b"\n", *(v.tobytes() for v in vectors.values())])


def unpacked(data: bytes | memoryview) -> Message:
    """Its arrays have memory of their own."""
    line, body = headed(data)
    head, vectors, at = json.loads(line), {}, 0
    for name, (dtype, shape) in head["vectors"].items():
        kind = np.dtype(dtype)
        size = math.prod(shape) * kind.itemsize
        if at + size > len(body):
            raise LearnError(f"a message ends within {name!r}; its sender stopped in the middle")
        vectors[name] = np.frombuffer(body[at : at + size], kind).reshape(shape).copy()
        at += size
    numbers = {name: float.fromhex(text) for name, text in head["numbers"].items()}
    return Message(vectors, numbers)


def headed(data: bytes | memoryview) -> tuple[bytes, memoryview]:
    """The first line, and what follows it, where it lies. All of it is the line if none ends."""
    for reach in (1 << 10, len(data)):
        line, end, _ = bytes(data[:reach]).partition(b"\n")
        if end:
            break
    return line, memoryview(data)[len(line) + len(end) :]
