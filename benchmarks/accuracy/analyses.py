"""Do HTA's figures and ours agree on the same traces? Busy, idle, overlap, kernel sums, skew.

HTA runs in an environment of its own: make one, install `traceinsight` into it, and name its
Python with --peer. Figures agree within 1 %. Of a trace in nanoseconds HTA cuts every range to the
whole microseconds inside it; where that is why figures differ, HTA with that switched off is equal
to ours, and the row says so (`explained`). All else that differs is a difference. Traces on which
HTA fails are named. TraceLens is not on PyPI: the package of that name is another project.

    python benchmarks/accuracy/analyses.py --peer /path/to/venv/bin/python --json
"""

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.measure import parser, report
from paceline.analyse.device import device_of
from paceline.analyse.lanes import working_lanes
from paceline.graph import Graph
from paceline.replay import Timeline, replay
from paceline.trace.importing import Import, import_graph

PEER = Path(__file__).parent / "jobs" / "peers.py"
SINGLE = (
    "h100/gaunernst_bert-small-uncased__1016001.json.gz",
    "h100-mi300x/h100_bert-small.json.gz",
    "h100-mi300x/mi300x_bert-small.json.gz",
    "h100-mi300x/h100_qwen1.5-0.5b.json.gz",
    "h100-mi300x/mi300x_qwen1.5-0.5b.json.gz",
    "hta-critical-path/alexnet.json.gz",
    "hta-critical-path/simple_add.json.gz",
    "nccl-metadata/nccl_data.json.gz",
)
SEVERAL = "dlrm-8xV100/dlrm_kineto.tar.gz"
NEAR = 0.01


@dataclass(frozen=True)
class Figure:
    """One figure of one rank of one trace, in us or as a share."""

    trace: str
    rank: int
    name: str
    theirs: float
    exact: float  # theirs, with their rounding switched off
    ours: float

    @property
    def agrees(self) -> bool:
        return _near(self.ours, self.theirs)

    @property
    def explained(self) -> bool:
        return not self.agrees and _near(self.ours, self.exact)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    made = parser(__doc__ or "")
    made.add_argument("--peer", type=Path, required=True, help="Python that has HTA")
    made.add_argument("--data", type=Path, required=True, help="folder of the shared traces")
    options = made.parse_args(arguments)
    failed: dict[str, str] = {}
    found = list(_figures(options.data, options.peer, failed, quick=options.quick))
    differ = [each for each in found if not each.agrees]
    figures = {
        "agree_share": round(1 - len(differ) / len(found), 4),
        "explained_share": round(sum(e.agrees or e.explained for e in found) / len(found), 4),
        "figures": len(found),
        "by_figure": _by_figure(found),
        "peer_failed": failed,
        "differ": [
            {**vars(each), "explained": each.explained}
            for each in sorted(differ, key=lambda e: e.explained)
        ][:40],
    }
    return report("accuracy/analyses", figures, options)


def _figures(data: Path, peer: Path, failed: dict[str, str], *, quick: bool) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as scratch:
        jobs = {path: {0: data / path} for path in SINGLE[: 2 if quick else None]}
        if not quick:
            jobs[SEVERAL] = _unpacked(data / SEVERAL, Path(scratch))
        for name, files in jobs.items():
            try:
                yield from _of_job(name, files, peer)
            except subprocess.CalledProcessError as error:
                failed[name] = error.stderr.splitlines()[-1]


def _unpacked(archive: Path, place: Path) -> dict[int, Path]:
    with tarfile.open(archive) as packed:
        packed.extractall(place, filter="data")
    found = sorted(place.rglob("*.json"))
    return {int(path.name.removeprefix("worker").split("_")[0]): path for path in found}


def _of_job(name: str, files: dict[int, Path], peer: Path) -> Iterator[Figure]:
    graph = import_graph([files[r] for r in sorted(files)], Import(tuple(sorted(files))))
    ours = _said(replay(graph))
    theirs, exact = (_flat(_asked(files, peer, exact=each)) for each in (False, True))
    for (rank, key), value in theirs.items():
        mine = ours[rank]
        told = mine["kernels"].get(key, 0.0) if key not in mine else mine[key]
        if value == value and (key != "overlap" or mine["talks"]):  # HTA: NaN without any
            yield Figure(name, rank, key[:60], value, exact[rank, key], told)
    if len(files) > 1:
        sides = [[sum(v for (r, k), v in each.items() if r == rank and k not in _TIMES)
                  for rank in files] for each in (theirs, exact)]  # fmt: skip
        sides.append([sum(ours[rank]["kernels"].values()) for rank in files])
        yield Figure(name, -1, "skew", *(max(each) / float(np.mean(each)) for each in sides))


_TIMES = ("busy", "idle", "overlap")


def _asked(files: dict[int, Path], peer: Path, *, exact: bool) -> dict[str, Any]:
    words = [f"{rank}={path}" for rank, path in files.items()]
    settings = {**os.environ, **({"HTA_DISABLE_NS_ROUNDING": "1"} if exact else {})}
    said = subprocess.run(
        [peer, PEER, *words], capture_output=True, text=True, check=True, env=settings
    )
    found: dict[str, Any] = json.loads(said.stdout.splitlines()[-1])
    return found


def _flat(said: dict[str, Any]) -> dict[tuple[int, str], float]:
    """HTA's answers by rank and figure, in us or shares; kernels by name."""
    found: dict[tuple[int, str], float] = {}
    for row in said["times"]:
        rank = int(row["rank"])
        found[rank, "busy"] = row["compute_time(us)"] + row["non_compute_time(us)"]
        found[rank, "idle"] = row["idle_time(us)"]
    for row in said["overlap"]:
        found[int(row["rank"]), "overlap"] = row["comp_comm_overlap_pctg"]
    for rank, sums in said["kernel_us"].items():
        found |= {(int(rank), kernel): us for kernel, us in sums.items()}
    return found


def _said(timeline: Timeline) -> dict[int, dict[str, Any]]:
    """By rank: busy and idle in us, the share of communication that is hidden, kernel sums."""
    found: dict[int, dict[str, Any]] = {}
    for row in device_of(timeline):
        found[row.rank] = {
            "busy": (row.span_ns - row.idle_ns) / 1e3,
            "idle": row.idle_ns / 1e3,
            "overlap": 100 * row.overlap,
            "talks": row.communication_ns + row.both_ns > 0,
            "kernels": _kernel_sums(timeline, row.rank),
        }
    return found


def _kernel_sums(timeline: Timeline, rank: int) -> dict[str, float]:
    """From arrival to end, as a trace shows a collective's kernel."""
    graph = timeline.graph
    rows = np.flatnonzero(_on_streams(graph) & (graph.ops.rank == rank))
    lasted = (timeline.end_ns - timeline.ready_ns)[rows]
    sums: dict[str, float] = defaultdict(float)
    for name, ns in zip(graph.ops.name[rows].tolist(), lasted.tolist()):
        sums[graph.text(name)] += ns / 1e3
    return sums


def _on_streams(graph: Graph) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    from paceline.graph import COMMUNICATION, OpKind

    kinds = (OpKind.COMPUTE, OpKind.COPY, *COMMUNICATION)
    return np.isin(graph.ops.lane, working_lanes(graph)) & np.isin(graph.ops.kind, kinds)


def _by_figure(found: Sequence[Figure]) -> dict[str, float]:
    groups: dict[str, list[bool]] = defaultdict(list)
    for each in found:
        name = each.name if each.name in (*_TIMES, "skew") else "kernel"
        groups[name].append(each.agrees or each.explained)
    return {name: round(sum(some) / len(some), 4) for name, some in groups.items()}


def _near(ours: float, theirs: float) -> bool:
    return abs(ours - theirs) <= NEAR * max(abs(theirs), abs(ours))


if __name__ == "__main__":
    main()
