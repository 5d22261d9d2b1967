"""Protocol Buffers' wire format, read without a schema: field numbers and raw values."""

from collections.abc import Iterator
from dataclasses import dataclass

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class WireError(ValueError):
    """The bytes are no whole protocol buffer."""


@dataclass(frozen=True)
class Fields:
    """A message: its values by field number."""

    values: dict[int, list[int | bytes]]

    @staticmethod
    def of(data: bytes) -> "Fields":
        values: dict[int, list[int | bytes]] = {}
        for number, value in fields_of(data):
            values.setdefault(number, []).append(value)
        return Fields(values)

    def all(self, number: int) -> list[bytes]:
        return [v for v in self.values.get(number, []) if isinstance(v, bytes)]

    def number(self, number: int) -> int:
        found = self.values.get(number, [0])[-1]
        return found if isinstance(found, int) else 0

    def text(self, number: int) -> str:
        found = self.all(number)
        return found[-1].decode("utf-8", "replace") if found else ""


def fields_of(data: bytes, *, partial: bool = False) -> Iterator[tuple[int, int | bytes]]:
    """(field number, value) of each field; `partial` allows the last value to be cut off."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        number, kind = tag >> 3, tag & 7
        if not number:
            raise WireError(f"field number 0 at byte {at}")
        if kind == _VARINT:
            value, at = varint(data, at)
            yield number, value
        else:
            size, at = _size(data, at, kind)
            if at + size > len(data) and not partial:
                raise WireError(f"field {number} at byte {at} ends after the data")
            yield number, data[at : at + size]
            at += size


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A variable-length number, and where it ends."""
    value = shift = 0
    while True:
        if at >= len(data):
            raise WireError(f"a number at byte {at} ends after the data")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise WireError(f"a number before byte {at} has more than 64 bits")


def _size(data: bytes, at: int, kind: int) -> tuple[int, int]:
    if kind == _BYTES:
        return varint(data, at)
    if kind in (_FIXED64, _FIXED32):
        return (8 if kind == _FIXED64 else 4), at
    raise WireError(f"wire type {kind} at byte {at}")
