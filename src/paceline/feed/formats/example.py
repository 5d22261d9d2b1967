"""TensorFlow's `Example` as protobuf puts it on the wire: a map of names to lists.

    Example { Features features = 1; }    Features { map<string, Feature> feature = 1; }
    Feature { BytesList 1 | FloatList 2 | Int64List 3 }, each { repeated value = 1 }

Written are bytes and whole numbers; read are all three kinds, packed or not.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

Value = bytes | tuple[int, ...]
Found = memoryview | tuple[int, ...] | tuple[float, ...]

_BYTES, _FLOATS, _WHOLE = 1, 2, 3
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT: Final = 70  # bits


def example(values: Mapping[str, Value]) -> bytes:
    entries = (_field(1, _entry(name, value)) for name, value in sorted(values.items()))
    return _field(1, b"".join(entries))


def features(record: memoryview) -> dict[str, Found]:
    """The features of an example by name; ValueError where the bytes are none."""
    found: dict[str, Found] = {}
    for number, whole in _fields(record):
        for inner, entry in _fields(whole) if number == 1 else ():
            if inner == 1:
                parts = dict(_fields(entry))
                found[bytes(parts[1]).decode()] = _feature(parts[2])
    return found


def _entry(name: str, value: Value) -> bytes:
    if isinstance(value, bytes):
        feature = _field(_BYTES, _field(1, value))
    else:
        feature = _field(_WHOLE, _field(1, b"".join(map(_varint, value))))
    return _field(1, name.encode()) + _field(2, feature)


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | _LENGTH) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # negative numbers are of 64 bits
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _feature(data: memoryview) -> Found:
    """The first of a list of bytes; all of a list of numbers."""
    for kind, values in _fields(data):
        if kind == _BYTES:
            return next(each for _, each in _fields(values))
        if kind == _FLOATS:
            packed = b"".join(bytes(each) for _, each in _fields(values))
            return tuple(np.frombuffer(packed, "<f4").tolist())
        if kind == _WHOLE:
            return tuple(number for _, each in _fields(values) for number in _numbers(each))
    return ()


def _numbers(data: memoryview) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _read_varint(data, at)
        yield value - (1 << 64) if value >> 63 else value


def _fields(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """(number, bytes) of each field; a whole number's are those of its varint."""
    at = 0
    while at < len(data):
        tag, begin = _read_varint(data, at)
        kind, start = tag & 7, begin
        if kind == _LENGTH:
            length, start = _read_varint(data, begin)
            at = start + length
        elif kind == _VARINT:
            at = _read_varint(data, begin)[1]
        elif kind in (_FIXED64, _FIXED32):
            at = begin + (8 if kind == _FIXED64 else 4)
        else:
            raise ValueError(f"no protobuf message: wire type {kind}")
        if at > len(data):
            raise ValueError("a protobuf message that ends too early")
        yield tag >> 3, data[start:at]


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while shift < _LONGEST_VARINT:
        if at >= len(data):
            raise ValueError("a protobuf message that ends too early")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value & ((1 << 64) - 1), at
    raise ValueError("a protobuf number longer than 64 bits")
