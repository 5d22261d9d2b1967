"""A run's folder: what was recorded for each rank, kept as it is, and the graph built from it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from paceline.errors import TraceError
from paceline.graph import Graph, load_graph, save_graph
from paceline.graph.files import KEPT
from paceline.graph.formats import read_graph
from paceline.record import sidecar
from paceline.record.job import JOB_NAME
from paceline.record.sidecar import Sidecar
from paceline.trace.build import build
from paceline.trace.enrich import enrich
from paceline.trace.identity import digest_of, identity_of, keep_identity, kept_identity
from paceline.trace.readers import chrome
from paceline.trace.readers.source import Source
from paceline.trace.trace import Trace

_FACTS: Final = "rank-*.facts.jsonl"
_TRACES: Final = "rank-*.trace.json"
_CATEGORIES: Final = ("weights", "gradients", "optimizer", "activations", "temporary")


def build_run(folder: Path) -> Graph:
    """The graph of a recording that `paceline record` made."""
    traces, sidecars = read_run(folder)
    facts = {"run": folder.name, "memory_peaks": _memory_peaks(sidecars)}
    return build(traces, sidecars, facts)


def open_run(path: str | Path) -> Graph:
    """The graph of anything that holds one: a graph's folder, a run, Chakra traces.

    A recording's is built when first asked for, kept, and built anew when the recording, or the
    code that builds graphs, is no longer what the kept one was made of.
    """
    path = Path(path)
    if not _is_recording(path):
        return read_graph(path)
    wanted = identity_of(path)
    if wanted == kept_identity(path):
        return load_graph(path)
    graph = build_run(path)
    save_graph(graph, path / KEPT)
    keep_identity(wanted, path)
    return graph


def made_of(path: str | Path) -> str:
    """A digest of what `open_run` reads: another one, another graph. Nothing is opened for it."""
    path = Path(path)
    if _is_recording(path):
        return identity_of(path).recording
    return digest_of([path] if path.is_file() else filter(Path.is_file, path.rglob("*")))


def read_run(folder: Path) -> tuple[Sequence[Trace], dict[int, Sidecar]]:
    """Each rank's trace, complete with what the recorder wrote, and its sidecar.

    A rank that was killed before it could write its trace is left out, and the others say so.
    """
    sidecars = {rank: sidecar.read(path) for rank, path in sorted(_facts_files(folder).items())}
    lost = [rank for rank in sidecars if not (folder / sidecar.trace_name(rank)).exists()]
    if len(lost) == len(sidecars):
        raise TraceError(
            f"no rank has a trace in {folder}: {_endings(sidecars, lost)}. Record again"
        )
    traces = [
        enrich(_trace(folder, rank), facts, _detail(folder, rank))
        for rank, facts in sidecars.items()
        if rank not in lost
    ]
    if lost:
        traces[0] = traces[0].noting(f"left out, without a trace: {_endings(sidecars, lost)}")
    return traces, sidecars


def _is_recording(path: Path) -> bool:
    """Whether a graph can be built here; one whose traces were removed is what its graph says."""
    recorded = any(path.glob(_FACTS)) or (path / JOB_NAME).is_file()
    return recorded and (any(path.glob(_TRACES)) or not (path / KEPT).exists())


def _trace(folder: Path, rank: int) -> Trace:
    """The trace of the recorded steps; that of a job of one process does not say its rank."""
    return replace(chrome.read(Source(folder / sidecar.trace_name(rank))), rank=rank)


def _detail(folder: Path, rank: int) -> Trace | None:
    """The trace of the detail step; None where the recording has none."""
    path = folder / sidecar.detail_name(rank)
    return chrome.read(Source(path)) if path.exists() else None


def _memory_peaks(sidecars: Mapping[int, Sidecar]) -> dict[str, int]:
    """The most that each category held on any rank in any step."""
    marks = [mark for facts in sidecars.values() for mark in facts.of(sidecar.Memory) if mark.peak]
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


def _endings(sidecars: Mapping[int, Sidecar], ranks: Sequence[int]) -> str:
    return "; ".join(f"rank {rank} {_ending(sidecars[rank])}" for rank in ranks)


def _ending(facts: Sidecar) -> str:
    """How a rank without a trace ended."""
    ends, steps = facts.of(sidecar.End), facts.of(sidecar.Step)
    recorded = sum(step.mode is sidecar.Mode.RECORDED for step in steps)
    how = f"ended with {ends[-1].reason!r}" if ends else "was killed"
    return f"{how} after {len(steps)} steps, {recorded} of them recorded"
