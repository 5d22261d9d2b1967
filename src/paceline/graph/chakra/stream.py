"""Length-delimited protobuf messages: a varint of the size, then the message, and so on.

A Chakra file is one `GlobalMetadata`, then a `Node` after the other. Readers of the format accept
the whole file gzipped, so does this one.
"""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from paceline.errors import FileError
from paceline.graph.chakra.schema import messages

_LONGEST_VARINT = 5  # ASTRA-sim's feeder reads sizes as 32 bits: five bytes of seven


def write_messages(path: Path, items: Iterable[Any]) -> None:
    """Write messages one by one."""
    with path.open("wb") as out:
        for item in items:
            data = item.SerializeToString()
            out.write(varint(len(data)) + data)


def read_nodes(path: Path) -> list[Any]:
    """The nodes of one trace file."""
    from google.protobuf.message import DecodeError

    kinds = messages()
    parts = list(split(_bytes(path), path))
    if not parts:
        raise FileError(f"{path} is empty, expected a Chakra trace. Write it anew.")
    nodes = []
    for index, part in enumerate(parts):
        try:
            message = (kinds.node if index else kinds.metadata).FromString(part)
        except DecodeError as error:
            raise FileError(
                f"message {index} of {path} is no Chakra message ({error}). Write it anew."
            ) from error
        nodes.append(message)
    return nodes[1:]


def split(data: bytes, path: Path) -> Iterator[bytes]:
    """Cut a file's bytes into its messages."""
    position = 0
    while position < len(data):
        size, begin = _read_varint(data, position, path)
        if begin + size > len(data):
            raise FileError(
                f"{path} is truncated: the message at byte {position} should have {size} bytes, "
                f"{len(data) - begin} are left. Write it anew."
            )
        yield data[begin : begin + size]
        position = begin + size


def varint(value: int) -> bytes:
    """Seven bits a byte, least first; the top bit says that more follow."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(data: bytes, position: int, path: Path) -> tuple[int, int]:
    """The number at `position`, and where what follows it begins."""
    value = 0
    for count, byte in enumerate(data[position : position + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return value, position + count + 1
    raise FileError(f"{path} has no message size at byte {position}: no Chakra trace, or truncated")


def _bytes(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    except (OSError, EOFError, zlib.error) as error:
        raise FileError(f"cannot read {path}: {error}") from error
