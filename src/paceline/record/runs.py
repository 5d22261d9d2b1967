"""A run's folder: what was recorded for each rank, kept as it is, and the graph built from it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from paceline.errors import TraceError
from paceline.graph import Graph, save_graph
from paceline.graph.formats import read_graph
from paceline.record import sidecar
from paceline.record.build import build
from paceline.record.enrich import enrich
from paceline.record.readers import chrome
from paceline.record.readers.source import Source
from paceline.record.sidecar import Sidecar
from paceline.record.trace import Trace

GRAPH: Final = "graph"
_FACTS: Final = "rank-*.facts.jsonl"
_CATEGORIES: Final = ("weights", "gradients", "optimizer", "activations", "temporary")


def build_run(folder: Path) -> Graph:
    """The graph of a recording that `paceline record` made."""
    traces, sidecars = read_run(folder)
    facts = {"run": folder.name, "memory_peaks": _memory_peaks(sidecars)}
    return build(traces, sidecars, facts)


def open_run(path: Path) -> Graph:
    """The graph of anything that holds one; a recording's is built, and kept, when first asked."""
    recorded = path.is_dir() and any(path.glob(_FACTS))
    if not recorded or (path / GRAPH).exists():
        return read_graph(path)
    graph = build_run(path)
    save_graph(graph, path / GRAPH)
    return graph


def read_run(folder: Path) -> tuple[Sequence[Trace], dict[int, Sidecar]]:
    """Each rank's trace, complete with what the recorder told, and its sidecar."""
    told = {rank: sidecar.read(path) for rank, path in _facts_files(folder).items()}
    traces = []
    for rank, facts in sorted(told.items()):
        path = folder / sidecar.trace_name(rank)
        if not path.exists():
            raise TraceError(_no_trace(folder, rank, facts, told))
        traces.append(enrich(chrome.read(Source(path)), facts, _detail(folder, rank)))
    return traces, told


def _detail(folder: Path, rank: int) -> Trace | None:
    """The trace of the detail step; None where the recording has none."""
    path = folder / sidecar.detail_name(rank)
    return chrome.read(Source(path)) if path.exists() else None


def _memory_peaks(told: Mapping[int, Sidecar]) -> dict[str, int]:
    """The most that each category held on any rank in any step."""
    marks = [mark for facts in told.values() for mark in facts.of(sidecar.Memory) if mark.peak]
    peaks = {name: max((getattr(m, name) for m in marks), default=0) for name in _CATEGORIES}
    return {name: held for name, held in peaks.items() if held}


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
