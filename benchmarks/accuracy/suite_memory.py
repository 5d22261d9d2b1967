"""Memory by structure of the suite's workloads: what a recording tells, against tensors counted.

A workload is recorded on one worker. In another process, which knows nothing of Paceline's
recorder, torch's allocator is watched from before the model is built, and the tensors of model,
gradients and optimizer are counted by themselves (`jobs/suite_memory.py`). The data set is taken
off: what is held once all is built, less the model. Activations are what is held besides when the
backward pass begins, the batch included. Error of the peak, and of each structure that makes up a
twentieth of it or more. Rows are kept in `results/memory-suite.json` as they come; the figures
stand once all workloads are there.

    python benchmarks/accuracy/suite_memory.py --json
"""

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import measure
from benchmarks.accuracy import suite
from paceline.bench.catalogue import module_of
from paceline.record.launch import RecordRequest, launch
from paceline.replay import replay
from paceline.replay.memory_by_rank import RankPeak, rank_peaks
from paceline.trace.runs import open_run

JOB = Path(__file__).parent / "jobs" / "suite_memory.py"
STEPS, RUN = 4, 30  # recorded, and of the recorded job in all
SMALL = 0.05  # of the peak: structures below it are not judged


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = measure.parser(__doc__, waits=False)
    parser.add_argument("--fresh", action="store_true", help="measure anew what is kept")
    parser.add_argument("--budget", type=float, default=60.0, metavar="MINUTES")
    options = parser.parse_args(arguments)
    names = suite.installed()[: 2 if options.quick else None]
    end = time.monotonic() + 60 * options.budget
    found = figures(names, fresh=options.fresh, end=end)
    return measure.report("accuracy/suite_memory", found, options, "torch")


def figures(names: Iterable[str], *, fresh: bool = False, end: float = math.inf) -> dict[str, Any]:
    """The worst and the mean error of the workloads' peaks. `end` is a moment of the monotonic
    clock, behind which no more are measured."""
    wanted = sorted(names)
    rows = suite.rows(wanted, "memory-suite.json", row, fresh=fresh, end=end)
    if len(rows) < len(wanted):
        return {"missing": len(wanted) - len(rows), "memory_rows": rows}
    errors = [abs(each["error"]) for each in rows]
    return {
        "memory_error": max(errors),
        "memory_mean_error": sum(errors) / len(errors),
        "memory_structure_error": max(
            (abs(error) for each in rows for error in each["structures"].values()), default=0.0
        ),
        "memory_rows": rows,
    }


def row(name: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        told, truth = recorded(name, Path(scratch)), counted(name, Path(scratch))
    peak = truth["peak"]
    large = {key: size for key, size in truth.items() if key != "peak" and size >= SMALL * peak}
    most = dict(told.highest)
    most["activations"] = most.get("activations", 0) + most.pop("other", 0)
    found = {
        "workload": name,
        "batch": suite.batch_of(name),
        "told": {"peak": told.peak_bytes, **most},
        "counted": truth,
        "error": round(told.peak_bytes / peak - 1, 4),
        "structures": {key: round(most.get(key, 0) / size - 1, 4) for key, size in large.items()},
    }
    print(json.dumps(found), file=sys.stderr, flush=True)
    return found


def recorded(name: str, scratch: Path) -> RankPeak:
    """What Paceline tells."""
    batch = str(suite.batch_of(name))
    line = (sys.executable, "-m", module_of(name), "--batch", batch, "--steps", str(RUN))
    done = launch(RecordRequest(line, scratch / "run", STEPS, 2), os.environ)
    return rank_peaks(replay(open_run(done.folder)))[0]


def counted(name: str, scratch: Path) -> dict[str, int]:
    """Of a fresh process."""
    out = scratch / "truth.json"
    line = (sys.executable, str(JOB), name, str(suite.batch_of(name)), str(out))
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name} ended badly:\n{done.stderr[-2000:]}")
    truth: dict[str, int] = json.loads(out.read_text())
    return truth


if __name__ == "__main__":
    main()
