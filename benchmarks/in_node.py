"""Replays by the page's engine in Node, beside those of the engine at hand."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from paceline.engine import module_file
from paceline.errors import ReplayError
from paceline.graph import Graph
from paceline.replay import Timeline, replay
from paceline.replay.job import ReplayJob, Shares
from paceline.report.page import conditions, pack

REPLAYED = Path(__file__).parents[1] / "web" / "test" / "replayed.js"


@dataclass(frozen=True, eq=False)
class Case:
    """A graph, and what its ops share."""

    graph: Graph
    shares: Shares = field(default_factory=Shares)


def compared(cases: Mapping[str, Case], folder: Path) -> dict[str, bool]:
    """Whether each replays to the same columns here and there, or is refused by both; the folder is
    for what goes to Node and comes back."""
    for name, case in cases.items():
        job = ReplayJob.of(case.graph, case.graph.ops.dur_ns, case.shares)
        (folder / f"{name}.pack").write_bytes(pack(case.graph, conditions(job)))
    in_node(folder)
    return {name: _equal(case, folder / name) for name, case in cases.items()}


def in_node(folder: Path) -> None:
    """Replay every packed graph of the folder; leaves NAME.times or NAME.error beside it."""
    subprocess.run(["node", str(REPLAYED), str(module_file()), str(folder)], check=True)


def _equal(case: Case, file: Path) -> bool:
    timeline = _ours(case)
    if timeline is None:
        return file.with_name(f"{file.name}.error").exists()
    there = file.with_name(f"{file.name}.times")
    if not there.exists():
        return False
    times = np.fromfile(there, np.int64).reshape(3, -1)
    columns = (timeline.ready_ns, timeline.start_ns, timeline.end_ns)
    return all(map(np.array_equal, times, columns))


def _ours(case: Case) -> Timeline | None:
    shares = case.shares
    try:
        return replay(
            case.graph,
            contention=shares.contention,
            transfers=shares.transfers,
            hosts=shares.hosts,
        )
    except ReplayError:
        return None
