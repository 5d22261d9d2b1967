"""XPlane files (`*.xplane.pb`) of the JAX and TensorFlow profilers -> `Trace`.

Only the fields that a timeline needs are read; the numbers are those of TSL's `xplane.proto`.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from paceline.errors import TraceError
from paceline.trace.readers.foreign import Line, trace_of
from paceline.trace.readers.protowire import Fields, WireError, fields_of
from paceline.trace.readers.source import Source
from paceline.trace.trace import Trace

_PLANES: Final = 1  # XSpace
_NAME, _LINES, _METADATA = 2, 3, 4  # XPlane
_LINE_NAME, _LINE_START_NS, _EVENTS, _DISPLAY_NAME = 2, 3, 4, 11  # XLine
_EVENT_METADATA, _OFFSET_PS, _DURATION_PS = 1, 2, 3  # XEvent
_PS_PER_NS: Final = 1000


def is_xplane(head: bytes) -> bool:
    """Whether a file may be an XSpace: its first field is a plane, which begins with id or name."""
    try:
        number, value = next(iter(fields_of(head, partial=True)))
    except (WireError, StopIteration):
        return False
    return number == _PLANES and isinstance(value, bytes) and value[:1] in (b"\x08", b"\x12")


def read(source: Source) -> Trace:
    try:
        lines = [line for plane in _all(source.read(), _PLANES) for line in _lines(plane)]
    except WireError as error:
        raise TraceError(
            f"{source.name} is no whole XPlane file: {error}; copy it again"
        ) from error
    trace = trace_of(source.name, "xplane", lines)
    if not len(trace.events):
        raise TraceError(f"{source.name} holds no events; was the profiler running?")
    return trace


def _lines(plane: bytes) -> Iterator[Line]:
    found = Fields.of(plane)
    names = dict(_event_name(entry) for entry in found.all(_METADATA))
    process = found.text(_NAME)
    for data in found.all(_LINES):
        line = Fields.of(data)
        base = line.number(_LINE_START_NS)
        events = [Fields.of(event) for event in line.all(_EVENTS)]
        start = [base + e.number(_OFFSET_PS) // _PS_PER_NS for e in events]
        spent = [e.number(_DURATION_PS) // _PS_PER_NS for e in events]
        yield Line(
            process,
            line.text(_DISPLAY_NAME) or line.text(_LINE_NAME),
            [names.get(e.number(_EVENT_METADATA), "?") for e in events],
            np.array(start, np.int64),
            np.array(start, np.int64) + np.array(spent, np.int64),
        )


def _event_name(entry: bytes) -> tuple[int, str]:
    """One entry of the map from number to XEventMetadata."""
    pair = Fields.of(entry)
    metadata = Fields.of(pair.all(2)[0]) if pair.all(2) else Fields({})
    return pair.number(1), metadata.text(4) or metadata.text(2)


def _all(data: bytes, number: int) -> list[bytes]:
    return Fields.of(data).all(number)
