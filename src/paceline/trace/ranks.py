"""Whether traces belong together: each rank once, all of one job."""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from paceline.errors import TraceError
from paceline.graph import NONE
from paceline.trace.trace import Trace

_LOG = logging.getLogger(__name__)

UNSYNCHRONISED_NS: Final = 60_000_000_000
"""Hosts whose clocks are set at all differ by less than this."""


def check_together(traces: Sequence[Trace]) -> tuple[str, ...]:
    """Raise `TraceError` if the traces are not each another rank of one job; a note of what is
    missing otherwise."""
    _check_ranks(traces)
    for what, tell in _ALIKE.items():
        _check_alike(traces, what, tell)
    _check_overlap(traces)
    return _missing(traces)


_ALIKE: Final[dict[str, Callable[[Trace], Any]]] = {
    "world sizes": lambda trace: trace.world_size,
    "jobs": lambda trace: trace.facts.get("job"),
    "backends": lambda trace: trace.facts.get("backend"),
}


def _check_ranks(traces: Sequence[Trace]) -> None:
    if not traces:
        raise TraceError("no traces were given; give at least one rank's")
    unknown = [str(t) for t in traces if t.rank == NONE]
    if unknown:
        raise TraceError(f"{', '.join(unknown)}: the rank is not known; pass --ranks 0,1,...")
    ranks = [trace.rank for trace in traces]
    twice = sorted({rank for rank in ranks if ranks.count(rank) > 1})
    if twice:
        files = ", ".join(t.source for t in traces if t.rank == twice[0])
        raise TraceError(
            f"rank {twice[0]} has {ranks.count(twice[0])} traces: {files}. Leave all but one out, "
            "or pass --ranks 0,1,... to number the files in the order given"
        )


def _check_alike(traces: Sequence[Trace], what: str, tell: Callable[[Trace], Any]) -> None:
    said = {tell(trace): str(trace) for trace in traces if tell(trace)}
    if len(said) > 1:
        listed = "; ".join(f"{value}: {trace}" for value, trace in said.items())
        raise TraceError(f"these traces name different {what} ({listed}): import one job at a time")


def _check_overlap(traces: Sequence[Trace]) -> None:
    """Ranks of one job are profiled at one time, give or take what their clocks differ."""
    timed = [t for t in traces if t.facts.get("timed", True) and len(t.events)]
    last_begin = max(timed, key=lambda t: int(t.events.start_ns.min()), default=None)
    first_end = min(timed, key=lambda t: int(t.events.end_ns.max()), default=None)
    if last_begin is None or first_end is None:
        return
    apart = int(last_begin.events.start_ns.min()) - int(first_end.events.end_ns.max())
    if apart > UNSYNCHRONISED_NS:
        raise TraceError(
            f"{last_begin} begins {apart / 1e9:.0f} s after {first_end} has ended: these are not "
            "ranks of one job at one time. Import traces of the same steps of one run"
        )


def _missing(traces: Sequence[Trace]) -> tuple[str, ...]:
    size = max(trace.world_size for trace in traces)
    beyond = [trace for trace in traces if size and trace.rank >= size]
    if beyond:
        raise TraceError(f"{beyond[0]} is not among the {size} ranks that the traces speak of")
    missing = sorted(set(range(size)) - {trace.rank for trace in traces})
    if not missing:
        return ()
    return (f"ranks {missing} of {size} were not given; what they did is left out",)
