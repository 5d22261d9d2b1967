"""Which format a file has, by its content."""

from collections.abc import Callable
from enum import Enum
from typing import Final

from paceline.trace.readers import chakra_host, flight, xplane
from paceline.trace.readers.protowire import Fields, WireError, varint
from paceline.trace.readers.source import Source


class Format(Enum):
    """What a file is; the value is its name in messages."""

    CHROME = "Chrome-format trace"
    CHAKRA_HOST = "Chakra host execution trace"
    CHAKRA = "Chakra execution trace"
    FLIGHT = "NCCL flight-recorder dump"
    XPLANE = "XPlane profile"
    UNKNOWN = "unknown"


def format_of(source: Source) -> Format:
    """The format of a file; UNKNOWN for anything that is no trace."""
    head = source.head()
    return next((kind for kind, fits in _TESTS if fits(head)), Format.UNKNOWN)


def _is_chrome(head: bytes) -> bool:
    text = head.lstrip()
    if text.startswith(b"{"):
        return b'"traceEvents"' in head or b'"schemaVersion"' in head
    return text.startswith(b"[") and b'"ph"' in head


def _is_chakra(head: bytes) -> bool:
    """A length, then a GlobalMetadata message of that length, whose field 1 is a version."""
    try:
        size, at = varint(head, 0)
        return Fields.of(head[at : at + size]).text(1).count(".") == 2
    except WireError:
        return False


_TESTS: Final[tuple[tuple[Format, Callable[[bytes], bool]], ...]] = (
    (Format.CHROME, _is_chrome),
    (Format.CHAKRA_HOST, chakra_host.is_host_trace),
    (Format.FLIGHT, flight.is_flight_record),
    (Format.CHAKRA, _is_chakra),
    (Format.XPLANE, xplane.is_xplane),
)
