"""XPlane files (`*.xplane.pb`) of the JAX and TensorFlow profilers -> `Trace`.

Only the fields that a timeline needs are read, and of a device's planes what XLA says of each
operation's arithmetic and bytes; the numbers are those of TSL's `xplane.proto`.
"""

import json
import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from paceline.errors import TraceError
from paceline.trace.readers.foreign import ProfileLine, trace_of
from paceline.trace.readers.protowire import Fields, WireError, fields_of
from paceline.trace.readers.source import Source
from paceline.trace.trace import Trace

_PLANES: Final = 1  # XSpace
_NAME, _LINES, _METADATA, _STAT_METADATA, _PLANE_STATS = 2, 3, 4, 5, 6  # XPlane
_LINE_NAME, _LINE_START_NS, _EVENTS, _DISPLAY_NAME = 2, 3, 4, 11  # XLine
_EVENT_METADATA, _OFFSET_PS, _DURATION_PS = 1, 2, 3  # XEvent
_EVENT_NAME, _EVENT_DISPLAY_NAME, _EVENT_STATS = 2, 4, 5  # XEventMetadata
_STAT_METADATA_ID, _DOUBLE, _TEXT, _REFERENCE = 1, 2, 5, 7  # XStat
_WHOLE: Final = (3, 4)  # XStat: unsigned, signed
_STATED: Final = ("hlo_category", "flops", "bytes_accessed")
_PS_PER_NS: Final = 1000
_DOUBLE_BYTES: Final = 8


def is_xplane(head: bytes) -> bool:
    """Whether a file may be an XSpace: its first field is a plane, which begins with id or name."""
    try:
        number, value = next(iter(fields_of(head, partial=True)))
    except (WireError, StopIteration):
        return False
    return number == _PLANES and isinstance(value, bytes) and value[:1] in (b"\x08", b"\x12")


def read(source: Source) -> Trace:
    try:
        planes = [Fields.of(plane) for plane in _all(source.read(), _PLANES)]
        lines = [line for plane in planes for line in _lines(plane)]
        devices = [kind for plane in planes if (kind := _device_kind(plane))]
    except WireError as error:
        raise TraceError(
            f"{source.name} is no whole XPlane file: {error}; copy it again"
        ) from error
    trace = trace_of(source.name, "xplane", lines)
    if not len(trace.events):
        raise TraceError(f"{source.name} holds no events; was the profiler running?")
    return replace(trace, facts={**trace.facts, "devices": devices}) if devices else trace


def _device_kind(plane: Fields) -> str:
    """Such as "TPU v5 lite"; empty for a host's plane."""
    return str(_stats(plane, _PLANE_STATS, _stat_names(plane)).get("device_type_string", ""))


def _lines(found: Fields) -> Iterator[ProfileLine]:
    known = dict(_event_metadata(entry) for entry in found.all(_METADATA))
    names = {number: _event_name(metadata) for number, metadata in known.items()}
    stats = _stat_names(found)
    stated = {number: _stated(metadata, stats) for number, metadata in known.items()}
    process = found.text(_NAME)
    for data in found.all(_LINES):
        line = Fields.of(data)
        base = line.number(_LINE_START_NS)
        events = [Fields.of(event) for event in line.all(_EVENTS)]
        start = [base + e.number(_OFFSET_PS) // _PS_PER_NS for e in events]
        spent = [e.number(_DURATION_PS) // _PS_PER_NS for e in events]
        yield ProfileLine(
            process,
            line.text(_DISPLAY_NAME) or line.text(_LINE_NAME),
            [names.get(e.number(_EVENT_METADATA), "?") for e in events],
            np.array(start, np.int64),
            np.array(start, np.int64) + np.array(spent, np.int64),
            [stated.get(e.number(_EVENT_METADATA), b"") for e in events],
        )


def _event_metadata(entry: bytes) -> tuple[int, Fields]:
    """One entry of the map from number to XEventMetadata."""
    pair = Fields.of(entry)
    return pair.number(1), Fields.of(pair.all(2)[0]) if pair.all(2) else Fields({})


def _event_name(metadata: Fields) -> str:
    return metadata.text(_EVENT_DISPLAY_NAME) or metadata.text(_EVENT_NAME)


def _stat_names(plane: Fields) -> dict[int, str]:
    """XStatMetadata by number."""
    pairs = [Fields.of(entry) for entry in plane.all(_STAT_METADATA)]
    return {pair.number(1): Fields.of(pair.all(2)[0]).text(_NAME) for pair in pairs if pair.all(2)}


def _stated(metadata: Fields, names: dict[int, str]) -> bytes:
    """What XLA states of an operation's work, as JSON; empty where it states none."""
    found = _stats(metadata, _EVENT_STATS, names)
    told = {name: found[name] for name in _STATED if name in found}
    return json.dumps(told).encode() if told else b""


def _stats(owner: Fields, number: int, names: dict[int, str]) -> dict[str, int | float | str]:
    """Named statistics: numbers, text, or a reference to another name."""
    found: dict[str, int | float | str] = {}
    for data in owner.all(number):
        stat = Fields.of(data)
        name = names.get(stat.number(_STAT_METADATA_ID), "")
        if text := stat.text(_TEXT):
            found[name] = text
        elif reference := stat.number(_REFERENCE):
            found[name] = names.get(reference, "")
        elif (doubles := stat.all(_DOUBLE)) and len(doubles[-1]) == _DOUBLE_BYTES:
            found[name] = float(struct.unpack("<d", doubles[-1])[0])
        else:
            found[name] = max(stat.number(each) for each in _WHOLE)
    return found


def _all(data: bytes, number: int) -> list[bytes]:
    return Fields.of(data).all(number)
