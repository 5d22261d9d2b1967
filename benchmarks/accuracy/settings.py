"""Jobs recorded in the lab at one setting each: starts of predictions, and what they must hit.

A recording holds steps without instruments, so each is the truth of its own setting and a start
for predictions of all others. Kept in `benchmarks/results/settings`: the typical step as a graph,
and the plain steps with date and load beside it.
"""

import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.accuracy.cells import DATE, FIRST, cluster
from benchmarks.accuracy.recordings import measured_machine
from benchmarks.measure import RESULTS, spread
from paceline.cluster.machine import Machine
from paceline.graph import Graph, load_graph, save_graph
from paceline.graph.condense import Grain, condense
from paceline.record.launch import RecordRequest, launch
from paceline.trace.runs import open_run
from paceline.verify import Proof, measured_run, recorded_in_lab

JOBS = Path(__file__).parent / "jobs"
GRAPHS = RESULTS / "settings"
KEPT = RESULTS / "settings.json"
MACHINE = "machine"  # its row in KEPT
STEPS = 5  # recorded
WARM = 13  # that the recorder lets pass before it looks, and some at the end


@dataclass(frozen=True)
class Setting:
    """A job and where it runs."""

    model: str
    parallel: str  # as jobs/parallel.py and jobs/train.py name it
    workers: int
    mbit: int

    @property
    def key(self) -> str:
        return f"{self.model}-{self.parallel}-x{self.workers}-{self.mbit}"

    @property
    def plain(self) -> int:
        """Steps without instruments before the recorded ones, and as many after them."""
        return 4 if self.mbit <= 50 else 8

    @property
    def command(self) -> tuple[str, ...]:
        """Steps enough for a warm-up, the plain ones before and after, and the recorded ones."""
        steps = str(2 * self.plain + STEPS + WARM)
        if self.parallel == "ddp":
            script = [str(JOBS / "train.py"), "--out", os.devnull]
        else:
            script = [str(JOBS / "parallel.py"), "--parallel", self.parallel]
        return (*FIRST, sys.executable, *script, "--model", self.model, "--steps", steps)


def recordings(
    wanted: Sequence[Setting], *, fresh: bool = False
) -> Iterator[tuple[Setting, Graph, dict[str, Any]]]:
    """Each setting's typical step, and its plain steps; recorded where none is kept."""
    for setting in wanted:
        kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
        if fresh or setting.key not in kept:
            graph, kept[setting.key] = record(setting)
            save_graph(graph, GRAPHS / setting.key)
            KEPT.write_text(json.dumps(kept, indent=0, sort_keys=True) + "\n")
            print(f"{setting.key}: {1e3 * kept[setting.key]['step_s']['median']:.1f} ms",
                  file=sys.stderr, flush=True)  # fmt: skip
        yield setting, load_graph(GRAPHS / setting.key), kept[setting.key]


def machine(*, fresh: bool = False) -> Machine:
    """The machine as it was when the settings were recorded, measured beside them."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    if fresh or MACHINE not in kept:
        found = {**asdict(measured_machine()), "load": round(os.getloadavg()[0], 2)}
        kept[MACHINE] = found | {"measured": datetime.now(timezone.utc).strftime(DATE)}
        KEPT.write_text(json.dumps(kept, indent=0, sort_keys=True) + "\n")
    of = {item.name for item in fields(Machine)}
    return Machine(**{name: value for name, value in kept[MACHINE].items() if name in of})


def record(
    setting: Setting,
    grain: Grain = Grain.EVENT,
    seen: Callable[[Path], None] = lambda folder: None,
) -> tuple[Graph, dict[str, Any]]:
    """One recording in the lab: its typical step at that grain, and its plain steps. `seen` gets
    the recording's folder, which then goes."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch) / "run"
        proof = Proof(setting.command, cluster(setting.workers, setting.mbit), STEPS, 400.0)
        launch(
            RecordRequest(setting.command, place, STEPS, setting.plain),
            os.environ,
            recorded_in_lab(proof, Path(scratch) / "logs"),
        )
        graph = open_run(place)
        measured = measured_run(place, graph)
        seen(place)
        steps = [ns / 1e9 for ns in measured.steps_ns]
        return condense(graph, grain), {
            "step_s": spread(steps),
            "steps": len(steps),
            "load": round(os.getloadavg()[0], 2),
            "recorded": datetime.now(timezone.utc).strftime(DATE),
        }


def summary(rows: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    """Mean and worst error of rows, under a figure's name."""
    if not rows:
        return {}
    worst = max(rows, key=lambda row: abs(row["error"]))
    return {
        f"{name}_mean_error": round(statistics.mean(abs(row["error"]) for row in rows), 4),
        f"{name}_worst_error": round(abs(worst["error"]), 4),
        f"{name}_worst_row": {k: worst[k] for k in ("recorded", "predicted", "error")},
        f"{name}_count": len(rows),
        f"{name}_rows": list(rows),
    }
