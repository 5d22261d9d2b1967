"""A run's folder: what was recorded for each rank, kept as it is, and the graph built from it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from paceline.errors import TraceError
from paceline.graph import Graph
from paceline.record import sidecar
from paceline.record.build import build
from paceline.record.enrich import enrich
from paceline.record.readers import chrome
from paceline.record.readers.source import Source
from paceline.record.sidecar import Sidecar
from paceline.record.trace import Trace

GRAPH: Final = "graph"
_FACTS: Final = "rank-*.facts.jsonl"


def build_run(folder: Path) -> Graph:
    """The graph of a recording that `paceline record` made."""
    traces, sidecars = read_run(folder)
    return build(traces, sidecars, {"run": folder.name})


def read_run(folder: Path) -> tuple[Sequence[Trace], dict[int, Sidecar]]:
    """Each rank's trace, complete with what the recorder told, and its sidecar."""
    told = {rank: sidecar.read(path) for rank, path in _facts_files(folder).items()}
    traces = []
    for rank, facts in sorted(told.items()):
        path = folder / sidecar.trace_name(rank)
        if not path.exists():
            raise TraceError(_no_trace(folder, rank, facts, told))
        traces.append(enrich(chrome.read(Source(path)), facts))
    return traces, told


def _facts_files(folder: Path) -> dict[int, Path]:
    found = {int(path.name.split(".")[0].split("-")[1]): path for path in folder.glob(_FACTS)}
    if not found:
        raise TraceError(
            f"{folder} holds no recording (no {_FACTS}). Record with "
            f"`paceline record -o {folder} -- COMMAND`, or import traces"
        )
    return found


def _no_trace(folder: Path, rank: int, facts: Sidecar, told: dict[int, Sidecar]) -> str:
    ends = facts.of(sidecar.End)
    how = f"it ended with: {ends[-1].reason}" if ends else "it was killed"
    return (
        f"rank {rank} has no trace in {folder}; {how}. Found facts of ranks {sorted(told)}. "
        "Record again"
    )
