"""Memory by structure of the suite's workloads: what a recording tells, against tensors counted.

A workload is recorded on one worker. In another process, which knows nothing of Paceline's
recorder, torch's allocator is watched from before the model is built, and the tensors of model,
gradients and optimizer are counted by themselves (`jobs/suite_memory.py`). The data set is taken
off: what is held once all is built, less the model, and less what of it is itself the batch, as the
graph of a full-graph network is. Activations are what is held besides when the backward pass
begins, the batch included. Error of the peak, and of each structure that makes up a twentieth of it
or more. Of a job whose steps differ (`other_ops` says how far) the same step is counted.

Rows are kept in `results/memory-suite-rows.json` as they come, so that a run that was stopped, or
whose `--budget` was spent, goes on; `--fresh` makes them anew. A workload of which a recording
tells no peak says why, and the figures stand once none is missing. It takes about 8 minutes.

    python benchmarks/accuracy/suite_memory.py --json
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import kept, measure
from benchmarks.accuracy import suite
from paceline.bench.catalogue import module_of
from paceline.errors import PacelineError
from paceline.record.launch import RecordRequest, launch
from paceline.replay import replay
from paceline.replay.memory_by_rank import RankPeak, rank_peaks
from paceline.trace.runs import open_run

JOB = Path(__file__).parent / "jobs" / "suite_memory.py"
STEPS, RUN = 4, 30  # recorded, and of the recorded job in all
STEADY = 5  # a step of those that are all alike
SMALL = 0.05  # of the peak: structures below it are not judged


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = measure.parser(__doc__, waits=False)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--fresh", action="store_true", help="measure anew what is kept")
    parser.add_argument("--budget", type=float, default=60.0, metavar="MINUTES")
    options = parser.parse_args(arguments)
    if options.only and options.save:
        parser.error("--save keeps the figures of all workloads; leave --only out")
    names = options.only or suite.installed()[: 2 if options.quick else None]
    found = figures(names, options.budget, fresh=options.fresh)
    return measure.report("accuracy/suite_memory", found, options, "torch")


def figures(names: Iterable[str], minutes: float, *, fresh: bool = False) -> dict[str, Any]:
    """The worst and the mean error of the workloads' peaks; none begins after so many minutes."""
    wanted = sorted(names)
    makers = {name: partial(row, name) for name in wanted}
    found = kept.rows("memory-suite", makers, minutes, fresh=fresh)
    rows, missing = list(found.values()), [name for name in wanted if name not in found]
    if missing:
        return {"memory_missing": missing, "memory_rows": rows}
    errors = [abs(each["error"]) for each in rows]
    return {
        "memory_error": max(errors),
        "memory_mean_error": sum(errors) / len(errors),
        "memory_structure_error": max(
            (abs(error) for each in rows for error in each["structures"].values()), default=0.0
        ),
        "memory_missing": missing,
        "memory_rows": rows,
    }


def row(name: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        told = recorded(name, Path(scratch))
        truth = counted(name, told.step if told.other_ops else STEADY, Path(scratch))
    peak = truth["peak"]
    large = {key: size for key, size in truth.items() if key != "peak" and size >= SMALL * peak}
    most = dict(told.highest)
    most["activations"] = most.get("activations", 0) + most.pop("other", 0)
    return {
        "workload": name,
        "batch": suite.batch_of(name),
        "told": {"peak": told.peak_bytes, **most},
        "counted": truth,
        "error": round(told.peak_bytes / peak - 1, 4),
        "structures": {key: round(most.get(key, 0) / size - 1, 4) for key, size in large.items()},
        "other_ops": told.other_ops,
    }


def recorded(name: str, scratch: Path) -> RankPeak:
    """What Paceline tells."""
    batch = str(suite.batch_of(name))
    line = (sys.executable, "-m", module_of(name), "--batch", batch, "--steps", str(RUN))
    try:
        done = launch(RecordRequest(line, scratch / "run", STEPS, 2), os.environ)
        graph = open_run(done.folder)
    except PacelineError as error:
        raise kept.NotMade(f"{name} could not be recorded: {error}") from error
    peaks = rank_peaks(replay(graph))
    if not peaks:
        notes = "; ".join(graph.meta.get("notes", ())) or "the recording says nothing of it"
        raise kept.NotMade(f"{name}: no memory is told: {notes}")
    return peaks[0]


def counted(name: str, step: int, scratch: Path) -> dict[str, int]:
    """Of a step of a fresh process."""
    out = scratch / "truth.json"
    line = (sys.executable, str(JOB), name, str(suite.batch_of(name)), str(step), str(out))
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode:
        raise kept.NotMade(f"{name} ended badly when it was counted:\n{done.stderr[-2000:]}")
    truth: dict[str, int] = json.loads(out.read_text())
    return truth


if __name__ == "__main__":
    main()
