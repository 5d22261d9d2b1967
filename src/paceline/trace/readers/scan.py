"""Chrome-format JSON -> `RawEvents`, streaming in bounded memory; the native scan's plain twin.

The text is cut between events, so that one damaged event cannot spoil the others; profilers do
write invalid JSON (unescaped quotes and backslashes, NaN), see `repair`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any, Final, TypeVar

import msgspec
import numpy as np

from paceline.engine import native
from paceline.trace.findings import stacked
from paceline.trace.readers.rawevents import (
    ABSENT,
    TEXT_BASE,
    Arrows,
    MemoryMarks,
    Ranges,
    RawEvents,
)
from paceline.trace.readers.repair import mended

T = TypeVar("T", Ranges, Arrows, MemoryMarks)

BATCH: Final = 8 << 20
"""Bytes decoded at once: 33,000 events of a GPU trace, about 17 MB as structs."""

LATEST_MICROSECONDS: Final = (1 << 61) // 1000
"""The year 2043: begin, duration and the trace's base time together stay within 64 bits."""

DETAILED: Final = ("nccl:", "gloo:", "mpi:", "ucc:", "record_param_comms", "c10d::", "nccl")
"""Events whose `args` are kept whole: they may tell group, sequence, bytes and dtype."""


_UNTOLD: Final = msgspec.Raw(b"")

FORM: Final = (
    "Input Dims",
    "Input Strides",
    "Input type",
    "Concrete Inputs",
    "grid",
    "block",
    "registers per thread",
    "shared memory",
)
"""What tells the shapes of an operator's inputs, or how a kernel was launched; kept as it is."""


class Args(msgspec.Struct):
    """What is read of an event's `args`; everything else is skipped.

    Profilers of AMD devices write numbers as text ("bytes": "1"): a value of any type is decoded,
    and `_whole` says what it means.
    """

    correlation: Any = None
    external: Any = msgspec.field(name="External id", default=None)
    sequence: Any = msgspec.field(name="Sequence number", default=None)
    fwd_thread: Any = msgspec.field(name="Fwd thread id", default=None)
    record: Any = msgspec.field(name="Record function id", default=None)
    size: Any = msgspec.field(name="bytes", default=None)
    memory: Any = msgspec.field(name="Bytes", default=None)
    address: Any = msgspec.field(name="Addr", default=None)
    device_type: Any = msgspec.field(name="Device Type", default=None)
    device_id: Any = msgspec.field(name="Device Id", default=None)
    stream: Any = None
    sync_kind: Any = msgspec.field(name="cuda_sync_kind", default=None)
    collective: Any = msgspec.field(name="Collective name", default=None)
    dims: msgspec.Raw = msgspec.field(name="Input Dims", default=_UNTOLD)
    strides: msgspec.Raw = msgspec.field(name="Input Strides", default=_UNTOLD)
    types: msgspec.Raw = msgspec.field(name="Input type", default=_UNTOLD)
    values: msgspec.Raw = msgspec.field(name="Concrete Inputs", default=_UNTOLD)
    grid: msgspec.Raw = _UNTOLD
    block: msgspec.Raw = _UNTOLD
    registers: msgspec.Raw = msgspec.field(name="registers per thread", default=_UNTOLD)
    shared: msgspec.Raw = msgspec.field(name="shared memory", default=_UNTOLD)

    def form(self) -> bytes:
        """One JSON object of what is told, in the order of `FORM`; empty where nothing is."""
        inputs = (self.dims, self.strides, self.types, self.values)
        parts = (*inputs, self.grid, self.block, self.registers, self.shared)
        told = [b'"%b":%b' % (k.encode(), bytes(p)) for k, p in zip(FORM, parts) if bytes(p)]
        return b"{" + b",".join(told) + b"}" if told else b""


class Event(msgspec.Struct):
    """One element of `traceEvents`."""

    ph: str = ""
    name: str = ""
    cat: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: Decimal | None = None
    dur: Decimal | None = None
    id: int | str | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")


def scan(chunks: Iterable[bytes]) -> RawEvents:
    """Read a trace with the fastest scanner there is."""
    core = native()
    return plain_scan(chunks) if core is None else _native_scan(core, chunks)


def plain_scan(chunks: Iterable[bytes]) -> RawEvents:
    """The specification of the native scan."""
    sink, rest, opening = _Sink(), b"", None
    for chunk in chunks:
        rest += chunk
        if opening is None:
            found = OPENING.search(rest)
            if found is None:
                continue
            opening, rest = rest[: found.start(1)], rest[found.end(1) :]
        if len(rest) >= BATCH:
            batch, rest = _cut(rest)
            sink.take(batch)
    if opening is None:
        return sink.done(rest, whole=_is_object(rest))
    batch, closing = _ending(rest)
    sink.take(batch)
    header = opening + b"[]" + closing
    return sink.done(header, whole=_is_object(header) or header.strip() == b"[]")


def _native_scan(core: Any, chunks: Iterable[bytes]) -> RawEvents:
    """The native scan; damaged events come back as text and are mended here."""
    found = core.KinetoScan()
    for chunk in chunks:
        found.feed(chunk)
    found.finish()
    ranges, arrows, memory = found.ranges(), found.arrows(), found.memory()
    names = [_text(raw) for raw in found.names()]
    mended_too = _Sink(names, found.forms(), len(ranges[0]))
    for piece in found.damaged():
        mended_too.take_damaged(piece)
    rest = mended_too.done(b"", whole=True)
    header = found.header
    return RawEvents(
        header,
        rest.names,
        rest.forms,
        _joined(Ranges(*ranges), rest.ranges),
        _joined(Arrows(*arrows), rest.arrows),
        _joined(MemoryMarks(*memory), rest.memory),
        found.details() + rest.details,
        found.metadata() + rest.metadata,
        rest.repaired,
        rest.lost,
        found.whole and (_is_object(header) or header.strip() == b"[]"),
    )


def _joined(first: T, second: T) -> T:
    """Rows of both tables; the first itself where the second is empty, as it mostly is."""
    if not len(second.pid):
        return first
    return stacked([first, second])


def _text(raw: bytes) -> str:
    """A name as it stands in the file, without its escapes."""
    try:
        return str(msgspec.json.decode(b'"' + raw + b'"'))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return raw.decode("utf-8", "replace")


OPENING: Final = re.compile(rb'(?:\A\s*|"traceEvents"\s*:\s*)(\[)')
BORDER: Final = re.compile(rb'(?<=\})\s*,\s*(?=\{\s*"(?:ph|name|cat|pid|tid|ts|id|args|dur|s)")')
"""Between two events: a closing brace, a comma, and an object that starts as events do."""


def _cut(text: bytes) -> tuple[bytes, bytes]:
    """All whole events of a text, and the rest."""
    borders = list(BORDER.finditer(text, max(0, len(text) - (1 << 18))))
    if not borders:
        return b"", text
    return text[: borders[-1].start()], text[borders[-1].end() :]


def _ending(text: bytes) -> tuple[bytes, bytes]:
    """The last events of the array, and what follows the array."""
    for found in _CLOSING.finditer(text):
        if _closes(text[found.end() :]):
            return text[: found.end() - 1], text[found.end() :]
    return text, b""


_CLOSING: Final = re.compile(rb"(?:\}|\A)\s*\]")


def _closes(rest: bytes) -> bool:
    """Whether this may follow the array of events: the end, or further keys of the document."""
    return not rest.strip() or _is_object(b'{"traceEvents": []' + rest)


def _is_object(text: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


class _Sink:
    """Collects decoded events as columns."""

    def __init__(
        self, names: Sequence[str] = (), forms: Sequence[bytes] = (), first_row: int = 0
    ) -> None:
        self.names = {name: row for row, name in enumerate(names)}
        self.forms = {form: row for row, form in enumerate(forms)}
        self._first_row = first_row
        self.ranges: list[tuple[int, ...]] = []
        self.arrows: list[tuple[int, ...]] = []
        self.memory: list[tuple[int, ...]] = []
        self.details: list[tuple[int, bytes]] = []
        self.metadata: list[bytes] = []
        self.repaired = self.lost = 0

    def take(self, batch: bytes) -> None:
        """Decode whole events; where the batch is damaged, one by one, mending what can be."""
        try:
            events = _EVENTS.decode(b"[" + batch + b"]")
        except (msgspec.DecodeError, UnicodeDecodeError):
            events = list(self._mend(batch))
        for event in events:
            self._add(event)

    def take_damaged(self, piece: bytes) -> None:
        """One event that is no valid JSON, or that holds numbers beyond any column."""
        try:
            events = [_EVENT.decode(piece)]
        except (msgspec.DecodeError, UnicodeDecodeError):
            events = list(self._mend(piece))
        for event in events:
            self._add(event)

    def done(self, header: bytes, *, whole: bool) -> RawEvents:
        return RawEvents(
            header,
            list(self.names),
            list(self.forms),
            Ranges(*_table(self.ranges, len(Ranges.__dataclass_fields__))),
            Arrows(*_table(self.arrows, len(Arrows.__dataclass_fields__))),
            MemoryMarks(*_table(self.memory, len(MemoryMarks.__dataclass_fields__))),
            self.details,
            self.metadata,
            self.repaired,
            self.lost,
            whole,
        )

    def _mend(self, batch: bytes) -> Iterator[Event]:
        for piece in BORDER.split(batch):
            try:
                yield _EVENT.decode(piece)
            except (msgspec.DecodeError, UnicodeDecodeError):
                yield from self._mend_one(piece)

    def _mend_one(self, text: bytes) -> Iterator[Event]:
        try:
            yield _EVENT.decode(mended(text))
            self.repaired += 1
        except (msgspec.DecodeError, UnicodeDecodeError):
            self.lost += 1

    def _add(self, event: Event) -> None:
        """Keep an event; one whose numbers no column holds is lost."""
        try:
            _TAKERS.get(event.ph, _skip)(self, event)
        except (OverflowError, msgspec.DecodeError):
            self.lost += 1

    def _number(self, value: int | str) -> int:
        if isinstance(value, str):
            return TEXT_BASE - self._name(value)
        if value <= TEXT_BASE:
            raise OverflowError(f"{value} stands for text")
        return value

    def _name(self, text: str) -> int:
        return self.names.setdefault(text, len(self.names))

    def _form(self, text: bytes) -> int:
        return self.forms.setdefault(text, len(self.forms)) if text else ABSENT

    def _range(self, event: Event) -> None:
        args = _ARGS.decode(event.args)
        row = _held(
            ord(event.ph),
            self._name(event.name),
            self._name(event.cat),
            self._number(event.pid),
            self._number(event.tid),
            _ns(event.ts),
            _ns(event.dur),
            _whole(args.correlation),
            _whole(args.external),
            _whole(args.sequence),
            _whole(args.fwd_thread),
            _whole(args.record),
            _whole(args.size),
            _whole(args.stream),
            self._form(args.form()),
        )
        given = _is_given(args.sync_kind) or _is_given(args.collective)
        if given or event.name.startswith(DETAILED):
            self.details.append((self._first_row + len(self.ranges), bytes(event.args)))
        self.ranges.append(row)

    def _arrow(self, event: Event) -> None:
        if event.cat == "fwdbwd":
            at = (self._number(event.pid), self._number(event.tid), _ns(event.ts))
            self.arrows.append(_held(ord(event.ph), _whole(event.id), *at))

    def _instant(self, event: Event) -> None:
        if event.name != "[memory]":
            return
        args = _ARGS.decode(event.args)
        at = (self._number(event.pid), self._number(event.tid), _ns(event.ts))
        what = (
            _whole(args.address),
            _whole(args.memory),
            _whole(args.device_type),
            _whole(args.device_id),
        )
        self.memory.append(_held(*at, *what))

    def _meta(self, event: Event) -> None:
        self.metadata.append(msgspec.json.encode(event))


def _skip(_sink: _Sink, _event: Event) -> None:
    """Counters, async ranges, launch arrows: known by correlation ids, or not needed."""


_TAKERS: Final = {
    "X": _Sink._range,
    "B": _Sink._range,
    "E": _Sink._range,
    "s": _Sink._arrow,
    "f": _Sink._arrow,
    "i": _Sink._instant,
    "M": _Sink._meta,
}


def _ns(microseconds: Decimal | None) -> int:
    if microseconds is None:
        return 0
    if not microseconds.is_finite() or abs(microseconds) >= LATEST_MICROSECONDS + 1:
        raise OverflowError(f"{microseconds} us is no moment")
    return int(microseconds * 1000)


def _held(*row: int) -> tuple[int, ...]:
    """The row, if a column can hold each number."""
    if max(row) >= 1 << 63 or min(row) < 1 - (1 << 63):
        raise OverflowError("a number beyond 64 bits")
    return row


def _whole(value: Any) -> int:
    """A number, also one given as text; anything else counts as absent."""
    if isinstance(value, str):
        return int(value) if _WHOLE_TEXT.fullmatch(value) else ABSENT
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ABSENT
    return int(value)


_WHOLE_TEXT: Final = re.compile(r"-?[0-9]{1,18}")


def _is_given(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool) and value != ""


def _table(rows: list[tuple[int, ...]], width: int) -> list[Any]:
    table = np.array(rows, np.int64).reshape(-1, width).T
    return [np.ascontiguousarray(column) for column in table]


_EVENTS: Final = msgspec.json.Decoder(list[Event])
_EVENT: Final = msgspec.json.Decoder(Event)
_ARGS: Final = msgspec.json.Decoder(Args)
