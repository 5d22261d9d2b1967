"""Operators as a trace saw them called: shapes, strides, types and values of their inputs, and what
hardware counters say. Read apart from the rest of a trace: few questions need it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from paceline.errors import TraceError
from paceline.trace.readers.source import Source

_COUNTED: Final = "cuda_profiler_range"


@dataclass(frozen=True)
class Called:
    """One call. A tensor's shape and strides are lists; lists of tensors are lists of such."""

    name: str
    thread: int
    start_us: float
    dur_us: float
    dims: tuple[Any, ...]
    strides: tuple[Any, ...]
    types: tuple[str, ...]
    values: tuple[str, ...]


@dataclass(frozen=True)
class Counted:
    """A range over which the device's counters were read."""

    name: str
    start_us: float
    dur_us: float
    values: dict[str, float]


class _Event(msgspec.Struct):
    name: str = ""
    cat: str = ""
    tid: int | str = 0
    ts: float | str = 0.0
    dur: float | str = 0.0
    args: dict[str, Any] = {}


class _File(msgspec.Struct):
    traceEvents: list[_Event] = []


def called(source: Source) -> tuple[Called, ...]:
    """Every operator call whose inputs the trace tells."""
    return tuple(
        Called(
            event.name,
            event.tid if isinstance(event.tid, int) else 0,
            float(event.ts),
            float(event.dur),
            tuple(event.args["Input Dims"]),
            tuple(event.args.get("Input Strides", ())),
            tuple(map(str, event.args.get("Input type", ()))),
            tuple(map(str, event.args.get("Concrete Inputs", ()))),
        )
        for event in _events(source)
        if event.cat in ("cpu_op", "Operator") and event.args.get("Input Dims")
    )


def counted(source: Source) -> tuple[Counted, ...]:
    """Every range with counters; most traces have none."""
    return tuple(
        Counted(event.name, float(event.ts), float(event.dur), values)
        for event in _events(source)
        if event.cat == _COUNTED and (values := _numbers(event.args))
    )


def _numbers(args: dict[str, Any]) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in args.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }


def _events(source: Source) -> Sequence[_Event]:
    try:
        return msgspec.json.decode(source.read(), type=_File, strict=False).traceEvents
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TraceError(
            f"{source.name} cannot be read for shapes: {error}. Export the trace again"
        ) from error
