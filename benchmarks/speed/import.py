"""Import of a large Kineto trace as eight ranks: files -> one graph; seconds and peak memory.

The file is rank 1 of 2 of a real job (V100, 216,092 events, 53.7 MB). Eight copies of it, each with
its own rank in its header, make a job of eight: 430 MB, 1.73 million events, packed as recorded.
its own rank in its header, make a job of eight: 430 MB, 1.73 million events, packed as recorded.
(`HolisticTraceAnalysis`) is installed, here or in the environment that `--peer PYTHON` names, it
reads the same files in turn, and `over_hta` is the ratio of the medians.
"""

import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import measure  # noqa: E402

RANKS = 8
EVENTS = 216_092
SHARED = Path(os.environ.get("PACELINE_SHARED", ROOT.parent / "shared"))
TRACE = SHARED / "data" / "traces" / "df_index_resolver.json.gz"
PEER = {"tool": "HTA 0.5.0", "seconds": 14.2, "peak_mb": 955}
"""Holistic Trace Analysis on the same input, on another day; in its place where it ran in turn."""

WORKER = """
import json, sys, time, resource
from pathlib import Path
begun, cpu = time.perf_counter(), time.process_time()
from paceline.trace.importing import Import, import_graph
from paceline.graph import save_graph
graph = import_graph([Path(sys.argv[1])], Import())
joined, joined_cpu = time.perf_counter() - begun, time.process_time() - cpu
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
save_graph(graph, Path(sys.argv[2]))
saved = time.perf_counter() - begun
saved_peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
print(json.dumps(dict(seconds=joined, cpu=joined_cpu, peak_mb=peak, saved=saved,
                      saved_peak_mb=saved_peak, ops=len(graph), dependencies=len(graph.deps),
                      instances=int(graph.ops.instance.max()) + 1)))
"""

HTA = """
import json, sys, time, resource
from importlib.metadata import version
begun, cpu = time.perf_counter(), time.process_time()
from hta.trace_analysis import TraceAnalysis
TraceAnalysis({rank: f"{sys.argv[1]}/rank-{rank}.json.gz" for rank in range(int(sys.argv[2]))})
seconds = time.perf_counter() - begun
mine = resource.getrusage(resource.RUSAGE_SELF)
pool = resource.getrusage(resource.RUSAGE_CHILDREN)
cpu = time.process_time() - cpu + pool.ru_utime + pool.ru_stime
largest = max(mine.ru_maxrss, pool.ru_maxrss) * 1024 / 1e6
print(json.dumps(dict(seconds=seconds, cpu=cpu, largest_mb=largest,
                      tool="HTA " + version("HolisticTraceAnalysis"))))
"""


def main() -> None:
    made = measure.parser(__doc__ or "")
    made.add_argument("--peer", metavar="PYTHON", help="a Python that has HTA")
    options = made.parse_args()
    if not TRACE.exists():
        sys.exit(f"{TRACE} is not there: the data set is kept beside the checkout")
    with tempfile.TemporaryDirectory() as folder:
        plain_bytes = prepare(Path(folder) / "traces")
        rounds, peer = 3 if options.quick else 7, options.peer or own_peer()
        runs, theirs = [], []
        for number in range(rounds):
            runs.append(one(Path(folder), number))
            if peer:
                theirs.append(by_peer(Path(folder), peer))
    found = figures(runs, plain_bytes) | beside(runs, theirs)
    measure.report("speed/import", found, options, "msgspec", "pyarrow")


def own_peer() -> str | None:
    return sys.executable if find_spec("hta") else None


def prepare(folder: Path) -> int:
    """Eight packed copies, each with its own rank; returns their unpacked size."""
    folder.mkdir()
    text = gzip.decompress(TRACE.read_bytes())
    told = b'"rank": 1, "world_size": 2'
    assert text.count(told) == 1
    for rank in range(RANKS):
        mine = text.replace(told, b'"rank": %d, "world_size": %d' % (rank, RANKS))
        (folder / f"rank-{rank}.json.gz").write_bytes(gzip.compress(mine, 6))
    return len(text) * RANKS


def one(folder: Path, number: int) -> dict[str, Any]:
    command = [sys.executable, "-c", WORKER, str(folder / "traces"), str(folder / f"graph{number}")]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    found: dict[str, Any] = json.loads(shown.stdout)
    return found


def by_peer(folder: Path, python: str) -> dict[str, Any]:
    command = [python, "-W", "ignore", "-c", HTA, str(folder / "traces"), str(RANKS)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(shown.stdout.splitlines()[-1])
    return found


def beside(runs: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> dict[str, Any]:
    """What the peer took in the same minutes; nothing where it is not installed."""
    if not theirs:
        return {"peer": PEER}
    seconds = statistics.median(run["seconds"] for run in theirs)
    return {
        "peer": {
            "tool": theirs[0]["tool"],
            "seconds": seconds,
            "spread": measure.spread([run["seconds"] for run in theirs]),
            "cpu_seconds": statistics.median(run["cpu"] for run in theirs),
            "largest_process_mb": max(run["largest_mb"] for run in theirs),
        },
        "over_hta": statistics.median(run["seconds"] for run in runs) / seconds,
    }


def figures(runs: list[dict[str, Any]], plain_bytes: int) -> dict[str, Any]:
    seconds = [run["seconds"] for run in runs]
    middle, bound = statistics.median(seconds), unpacking_seconds()
    return {
        "seconds": middle,
        "peak_mb": max(run["peak_mb"] for run in runs),
        "spread": measure.spread(seconds),
        "cpu_seconds": statistics.median(run["cpu"] for run in runs),
        "saved_seconds": statistics.median(run["saved"] for run in runs),
        "saved_peak_mb": max(run["saved_peak_mb"] for run in runs),
        "unpacked_mb": plain_bytes / 1e6,
        "events": EVENTS * RANKS,
        "ops": runs[0]["ops"],
        "dependencies": runs[0]["dependencies"],
        "joined_collectives": runs[0]["instances"],
        "bound": "unpacking the files with zlib on two cores, and nothing else",
        "bound_seconds": bound,
        "share_of_bound": bound / middle,
    }


def unpacking_seconds() -> float:
    """How long two cores take only to unpack the eight files."""
    data = TRACE.read_bytes()
    times = measure.interleave({"unpack": lambda: gzip.decompress(data)}, rounds=5)
    return min(times["unpack"]["wall"]) * RANKS / min(2, os.cpu_count() or 1)


if __name__ == "__main__":
    main()
