"""Chrome-format traces: scanned once, then read as PyTorch's (`kineto`) or as another framework's."""

from typing import Any

import msgspec

from paceline.errors import TraceError
from paceline.record.readers import kineto
from paceline.record.readers.rawevents import RawEvents
from paceline.record.readers.repair import mended
from paceline.record.readers.scan import scan
from paceline.record.readers.source import Source
from paceline.record.trace import Trace


def read(source: Source, *, salvage: bool = False) -> Trace:
    """The trace in a Chrome-format file; `salvage` takes what a truncated one still holds."""
    raw = scan(source.chunks())
    header, notes = _header(raw), []
    if not raw.whole:
        if not salvage:
            raise TraceError(
                f"{source.name} ends in the middle: its JSON is not complete after "
                f"{len(raw.ranges)} events, and events are not in order of time, so what is "
                "missing cannot be told. Export it again, or pass --salvage to take what is there"
            )
        notes.append(f"truncated after {len(raw.ranges)} events; what followed is left out")
    if raw.repaired:
        notes.append(f"{raw.repaired} events of invalid JSON were mended")
    if raw.lost:
        notes.append(f"{raw.lost} events of invalid JSON could not be read and are left out")
    if not len(raw.ranges):
        raise TraceError(f"{source.name} holds no events; was the profiler running?")
    return kineto.trace_of(source.name, raw, header).noting(*notes)


def _header(raw: RawEvents) -> dict[str, Any]:
    """The document without its events; empty for a bare array of events."""
    for text in (raw.header, mended(raw.header)):
        try:
            found = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        return found if isinstance(found, dict) else {}
    return {}
