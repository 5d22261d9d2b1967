"""Two workers against one, over the tasks of one import: on Dask, on Ray, and as plain processes.

The tasks are those of 32 ranks of the job that `speed/large` imports: each reads a packed trace of
40,533 events and gives back what joining ranks asks for. Workers are begun and warm; joining the
ranks, which one process does, is apart. One worker and two take turns, and the median of three
rounds counts. Plain processes share nothing but the machine: `processes_import_speedup` is what two
workers can bring here at most.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.clusters import CLUSTERS, Workers, there
from benchmarks.speed.large import TRACE, prepare

from benchmarks import measure
from paceline.spread import OneByOne, opened
from paceline.trace.parts import RankTrace, answer
from paceline.trace.readers.source import sources

RANKS, QUICK = 32, 16
ROUNDS = 3


def main() -> None:
    options = measure.parser(__doc__ or "").parse_args()
    if not TRACE.exists():
        sys.exit(f"{TRACE} is not there: the data set is kept beside the checkout")
    with tempfile.TemporaryDirectory(prefix="paceline-spread-") as scratch:
        folder = Path(scratch) / "ranks"
        prepare(folder, QUICK if options.quick else RANKS)
        traces = [RankTrace(source) for source in sources([folder])]
        rounds = 1 if options.quick else ROUNDS
        figures = {"ranks": len(traces), "rounds": rounds, **speedups(traces, rounds)}
    measure.report("speed/spread", figures, options, "distributed", "ray", "msgspec")


def speedups(traces: Sequence[RankTrace], rounds: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, cluster in CLUSTERS.items():
        found[f"{name}_import_speedup"] = None
        if there(name):
            pairs = [[seconds(traces, cluster, n) for n in (1, 2)] for _ in range(rounds)]
            ratios = [one / two for one, two in pairs]
            found[f"{name}_import_speedup"] = round(statistics.median(ratios), 3)
            found[f"{name}_seconds"] = pairs
    return found


def seconds(traces: Sequence[RankTrace], cluster: Workers, workers: int) -> float:
    """What so many workers take for all tasks."""
    with ExitStack() as stack:
        place = stack.enter_context(cluster(workers))
        answers = stack.enter_context(opened(place, OneByOne(answer)))
        list(answers(traces[: 2 * workers]))
        begin = time.perf_counter()
        assert len(list(answers(traces))) == len(traces)
        return time.perf_counter() - begin


if __name__ == "__main__":
    main()
