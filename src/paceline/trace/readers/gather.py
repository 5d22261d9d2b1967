"""All files given -> one trace a rank."""

import logging
import os
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from typing import Final

from paceline.errors import TraceError
from paceline.graph import NONE
from paceline.trace.readers import chakra_host, chrome, flight, xplane
from paceline.trace.readers.chakra_host import HostTrace
from paceline.trace.readers.detect import Format, format_of
from paceline.trace.readers.flight import FlightRecord
from paceline.trace.readers.source import Source
from paceline.trace.trace import Trace

_LOG = logging.getLogger(__name__)
Found = Trace | HostTrace | FlightRecord

_NAMED_RANK: Final = re.compile(r"(?:rank|worker|trace)[-_.]?(\d+)", re.IGNORECASE)


def read_all(
    sources: Sequence[Source], *, ranks: Sequence[int] | None = None, salvage: bool = False
) -> list[Trace]:
    """One trace a rank, in order of rank. `ranks` numbers the timed traces in the order given.

    Files are read side by side: the scan runs outside the interpreter's lock.
    """
    kinds = {source: format_of(source) for source in sources}
    known = [source for source in sources if kinds[source] in _READERS]
    if not known:
        raise TraceError(_nothing(sources))
    for source in sources:
        if source not in known:
            _LOG.warning("%s is %s and is left out", source.name, _why(kinds[source]))
    with ThreadPoolExecutor(min(len(known), os.cpu_count() or 1)) as pool:
        read = list(pool.map(lambda s: _READERS[kinds[s]](s, salvage), known))
    return _numbered(_brought_together(chain.from_iterable(read)), ranks)


def read_one(source: Source, *, salvage: bool = False) -> Trace:
    """The Chrome-format trace of one rank."""
    return _with_rank(source, chrome.read(source, salvage=salvage))


def _read_chrome(source: Source, salvage: bool) -> Sequence[Found]:
    found = chrome.read_each(source, salvage=salvage)
    return found if len(found) > 1 else [_with_rank(source, found[0])]


def _read_host(source: Source, _salvage: bool) -> Sequence[Found]:
    host = chakra_host.read(source)
    return [replace(host, rank=_rank_in_name(source))]


def _read_flight(source: Source, _salvage: bool) -> Sequence[Found]:
    return [flight.read(source)]


def _read_xplane(source: Source, _salvage: bool) -> Sequence[Found]:
    return [_with_rank(source, xplane.read(source))]


_READERS: Final[dict[Format, Callable[[Source, bool], Sequence[Found]]]] = {
    Format.CHROME: _read_chrome,
    Format.CHAKRA_HOST: _read_host,
    Format.FLIGHT: _read_flight,
    Format.XPLANE: _read_xplane,
}
"""Each file's parts: most have one."""


def _with_rank(source: Source, trace: Trace) -> Trace:
    """Where the content does not tell the rank, the file's name may."""
    return trace if trace.rank != NONE else replace(trace, rank=_rank_in_name(source))


def _rank_in_name(source: Source) -> int:
    name = (source.member or source.path.name).rsplit("/", 1)[-1]
    found = _NAMED_RANK.search(name)
    return int(found[1]) if found else NONE


def _brought_together(found: Iterable[Found]) -> list[Trace]:
    """Timed traces, with what untimed files of the same rank know; lone execution traces as they
    are."""
    parts = list(found)
    traces = [part for part in parts if isinstance(part, Trace)]
    hosts = [part for part in parts if isinstance(part, HostTrace)]
    records = [part for part in parts if isinstance(part, FlightRecord)]
    if not traces:
        traces, hosts = [chakra_host.alone(host) for host in hosts], []
    if not traces:
        raise TraceError(
            "only flight-recorder dumps were given; they hold no kernel times. Give the Kineto "
            "traces of the same ranks too"
        )
    for host in hosts:
        at = _partner(traces, host.rank, host.source)
        traces[at] = chakra_host.completed_by(host, traces[at])
    for record in records:
        at = _partner(traces, record.rank, record.source)
        traces[at] = flight.completed_by(record, traces[at])
    return traces


def _partner(traces: Sequence[Trace], rank: int, source: str) -> int:
    """The trace of the same rank; the only one there is, where a rank is not known."""
    fits = [at for at, trace in enumerate(traces) if trace.rank == rank and rank != NONE]
    if len(traces) == 1 and (rank == NONE or traces[0].rank == NONE):
        fits = [0]
    if len(fits) != 1:
        have = ", ".join(str(trace) for trace in traces)
        raise TraceError(
            f"{source} (rank {'unknown' if rank == NONE else rank}) has no timed trace of its rank "
            f"among {have}; leave it out, or put the rank into its name, such as et_rank_0.json"
        )
    return fits[0]


def _numbered(traces: list[Trace], ranks: Sequence[int] | None) -> list[Trace]:
    """Traces with ranks as given on the command line, in order of rank."""
    if ranks is not None:
        if len(ranks) != len(traces):
            raise TraceError(
                f"--ranks names {len(ranks)} ranks for {len(traces)} traces; name each"
            )
        traces = [replace(trace, rank=rank) for trace, rank in zip(traces, ranks)]
    elif len(traces) == 1 and traces[0].rank == NONE:
        traces = [replace(traces[0], rank=0)]
    return sorted(traces, key=lambda trace: trace.rank)


def _why(kind: Format) -> str:
    return "no trace" if kind is Format.UNKNOWN else f"a {kind.value}, which is imported alone"


def _nothing(sources: Sequence[Source]) -> str:
    shown = ", ".join(source.name for source in sources[:5]) or "no files"
    return (
        f"no traces in {shown}. Read are: PyTorch's Kineto traces and other Chrome-format traces, "
        "Chakra execution traces, NCCL flight-recorder dumps, XPlane profiles; packed or not"
    )
