"""Timelines for https://ui.perfetto.dev and chrome://tracing: the Trace Event Format, as JSON.

A rank is a process, a lane a thread, an op a slice. Where an op waited for partners, two slices
inside it tell `waiting` from `transfer`. The members of a collective or message are joined by a
flow, which runs from the first that arrived to the last. Times are microseconds with three
decimals, written from whole nanoseconds without rounding.
"""

import gzip
import json
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from enum import IntEnum
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TextIO

import numpy as np

from paceline.errors import FileError
from paceline.graph.atomic import atomic_file
from paceline.graph.graph import Graph, Int64
from paceline.graph.kinds import NONE, OpKind, Phase
from paceline.report.progress import tracked

_AT_ONCE = 4096
_ARGUMENTS = ("size_bytes", "flops", "step")


class Times(Protocol):
    """When each op arrived, started and ended: a `Timeline`, or recorded columns."""

    @property
    def ready_ns(self) -> Int64: ...

    @property
    def start_ns(self) -> Int64: ...

    @property
    def end_ns(self) -> Int64: ...


def write_perfetto(graph: Graph, times: Times, path: str | Path) -> Path:
    """Write a `.json` or `.json.gz` trace, event by event."""
    path = Path(path)
    if not path.name.endswith((".json", ".json.gz")):
        raise FileError(f"{path} is to be a trace: end its name in .json or .json.gz")
    with atomic_file(path) as hidden, _open(hidden, path) as out:
        out.write('{"displayTimeUnit": "ns", "otherData": {"by": "paceline"}, "traceEvents": [\n')
        lines = tracked(_events(graph, times), f"writing {path.name}")
        out.write(next(lines, ""))
        while batch := list(islice(lines, _AT_ONCE)):
            out.write("".join(f",\n{line}" for line in batch))
        out.write("\n]}\n")
    return path


def _open(hidden: Path, path: Path) -> AbstractContextManager[TextIO]:
    if path.suffix == ".gz":
        return gzip.open(hidden, "wt", compresslevel=5, encoding="utf-8")
    return hidden.open("w", encoding="utf-8")


def _events(graph: Graph, times: Times) -> Iterator[str]:
    yield from map(json.dumps, _names(graph))
    flows = _Flows(graph, times)
    describe = _Slices(graph)
    ready, start, end = (c.tolist() for c in (times.ready_ns, times.start_ns, times.end_ns))
    for op, part in _in_order(times):
        if part is _Part.WAITING:
            yield describe.inner("waiting", op, ready[op], start[op])
        elif part is _Part.TRANSFER:
            yield describe.inner("transfer", op, start[op], end[op])
        else:
            yield describe.whole(op, ready[op], end[op])
            yield from flows.of(op, ready[op])


class _Part(IntEnum):
    """A slice is a whole op or what happened inside it; of equal begins the whole comes first."""

    WHOLE = 0
    WAITING = 1
    TRANSFER = 2


def _in_order(times: Times) -> Iterator[tuple[int, _Part]]:
    """Every slice by its begin, as viewers want it."""
    every = np.arange(len(times.ready_ns))
    waited = np.flatnonzero(times.start_ns > times.ready_ns)
    begin = np.concatenate([times.ready_ns, times.ready_ns[waited], times.start_ns[waited]])
    op = np.concatenate([every, waited, waited])
    part = np.repeat([_Part.WHOLE, _Part.WAITING, _Part.TRANSFER], [len(every), *[len(waited)] * 2])
    order = np.lexsort((part, op, times.ready_ns[op], begin))
    return zip(op[order].tolist(), map(_Part, part[order].tolist()))


def _names(graph: Graph) -> Iterator[dict[str, Any]]:
    """Metadata: what the tracks are called, and their order."""
    for rank in graph.ranks:
        yield _named("process_name", rank, 0, name=f"rank {rank}")
        yield _named("process_sort_index", rank, 0, sort_index=rank)
    for lane, (rank, name) in enumerate(zip(graph.lanes.rank.tolist(), graph.lanes.name)):
        yield _named("thread_name", rank, lane + 1, name=name)
        yield _named("thread_sort_index", rank, lane + 1, sort_index=lane)


def _named(what: str, rank: int, thread: int, **arguments: Any) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": rank, "tid": thread, "ts": 0, "args": arguments}


class _Slices:
    """Writes an op as a slice, and the slices inside it."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._quoted = cache(lambda index: json.dumps(graph.text(index)))

    def whole(self, op: int, ready: int, end: int) -> str:
        name = self._quoted(int(self._graph.ops.name[op]))
        return self._slice(name, op, ready, end, f', "args": {{{self._arguments(op)}}}')

    def inner(self, name: str, op: int, begin: int, end: int) -> str:
        return self._slice(f'"{name}"', op, begin, end)

    def _slice(self, name: str, op: int, begin: int, end: int, more: str = "") -> str:
        kind = OpKind(self._graph.ops.kind[op]).name.lower()
        return (
            f'{{"ph": "X", "name": {name}, "cat": "{kind}", {_track(self._graph, op)}, '
            f'"ts": {microseconds(begin)}, "dur": {microseconds(end - begin)}{more}}}'
        )

    def _arguments(self, op: int) -> str:
        ops = self._graph.ops
        parts = [f'"op": {op}']
        if ops.phase[op] != Phase.NONE:
            parts.append(f'"phase": "{Phase(ops.phase[op]).name.lower()}"')
        for column in ("layer", "tensor"):
            if (index := int(getattr(ops, column)[op])) != NONE:
                parts.append(f'"{column}": {self._quoted(index)}')
        for column in _ARGUMENTS:
            if value := int(getattr(ops, column)[op]):
                parts.append(f'"{column}": {value}')
        return ", ".join(parts)


class _Flows:
    """Writes the arrows that join the members of an instance, in the order of their arrival."""

    def __init__(self, graph: Graph, times: Times) -> None:
        self._graph = graph
        members = np.flatnonzero(graph.ops.instance != NONE)
        instance = graph.ops.instance[members]
        by_arrival = np.lexsort((members, times.ready_ns[members], instance))
        self._place = {int(members[i]): turn for turn, i in enumerate(by_arrival)}
        self._instance = instance[by_arrival]

    def of(self, op: int, ready: int) -> Iterable[str]:
        turn = self._place.get(op)
        if turn is None:
            return
        phase = self._phase(turn)
        if phase:
            yield (
                f'{{"ph": {phase}, "id": {self._instance[turn]}, "name": "joined", '
                f'"cat": "instance", {_track(self._graph, op)}, "ts": {microseconds(ready)}}}'
            )

    def _phase(self, turn: int) -> str:
        """Start, step or finish; nothing for an instance of one member."""
        instances = self._instance
        first = turn == 0 or instances[turn - 1] != instances[turn]
        last = turn + 1 == len(instances) or instances[turn + 1] != instances[turn]
        if first:
            return "" if last else '"s"'
        return '"f", "bp": "e"' if last else '"t"'


def _track(graph: Graph, op: int) -> str:
    lane = int(graph.ops.lane[op])
    return f'"pid": {graph.lanes.rank[lane]}, "tid": {lane + 1}'


def microseconds(ns: int) -> str:
    """A whole number of nanoseconds as a decimal number of microseconds."""
    sign = "-" if ns < 0 else ""
    return f"{sign}{abs(ns) // 1000}.{abs(ns) % 1000:03d}"
