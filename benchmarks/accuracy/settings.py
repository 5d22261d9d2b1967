"""Jobs recorded in the lab at one setting each: starts of predictions, and what they must hit.

A recording holds steps without instruments, so each is the truth of its own setting and a start
for predictions of all others. Kept in `benchmarks/results/settings`: the typical step as a graph,
and the plain steps with date and load beside it. Once all settings are recorded, each is run a
second time: what two runs of one setting differ by is the least that an error can be told from.
Workloads of the suite, whose steps are short, are run until that is small enough to judge what is
asked of a row, or five times; how many steps they record and time goes by a step's length.
"""

import json
import math
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.accuracy import suite
from benchmarks.accuracy.cells import DATE, FIRST, cluster
from benchmarks.accuracy.recordings import measured_machine
from benchmarks.floors import floor_of, told_apart
from benchmarks.measure import RESULTS, spread
from paceline.bench.catalogue import module_of
from paceline.cluster.machine import Machine
from paceline.errors import PacelineError
from paceline.graph import Graph, load_graph, save_graph
from paceline.graph.condense import Grain, condense
from paceline.record import sidecar
from paceline.record.launch import RecordRequest, launch
from paceline.trace.plain import plain_steps
from paceline.trace.runs import open_run
from paceline.verify import Proof, measured_run, recorded_in_lab

JOBS = Path(__file__).parent / "jobs"
GRAPHS = RESULTS / "settings"
KEPT = RESULTS / "settings.json"
MACHINE, SUITE_MACHINE = "machine", "machine-suite"  # rows in KEPT
RESTS = frozenset({"rested", "rest_ns", "warm_ns"})  # in its row
SUITE = "suite"  # what a setting's `parallel` says of a workload of `paceline bench`
STEPS = 5  # recorded
SUITE_START = (2, 1000)  # workers and Mbit/s of the suite's recordings that are predicted from
SUITE_ASKED = 0.12  # of its worst row: settings are run until two of them can tell half of it
MOST_RUNS = 5
SHORT_S = 0.05  # shorter steps of a start are recorded in turns with plain ones
WARM = 13  # that the recorder lets pass before it looks, and some at the end
TURNS_REST = 30  # the same where recorded steps take turns with plain ones
BLOCK = 4  # steps whose median is one measurement, where chance is asked for
ORDER_SEED = 23


@dataclass(frozen=True)
class Effort:
    """What is recorded anew, and until when; what is kept costs nothing."""

    fresh: bool = False
    end_s: float = math.inf  # as time.monotonic tells it
    began: str = field(default_factory=lambda: datetime.now(timezone.utc).strftime(DATE))

    @property
    def since(self) -> str:
        """What is older does not count."""
        return self.began if self.fresh else ""

    @property
    def over(self) -> bool:
        return time.monotonic() > self.end_s


@dataclass(frozen=True)
class Size:
    """How many steps are recorded, and run without instruments before and after, or among them."""

    steps: int
    plain: int
    turns: bool = False


@dataclass(frozen=True)
class Setting:
    """A job and where it runs."""

    model: str
    parallel: str  # as jobs/parallel.py and jobs/train.py name it, or SUITE
    workers: int
    mbit: int

    @property
    def key(self) -> str:
        return f"{self.model}-{self.parallel}-x{self.workers}-{self.mbit}"

    @property
    def size(self) -> Size:
        return Size(STEPS, 4 if self.mbit <= 50 else 8)

    def sized(self, step_s: float) -> Size:
        """For a workload whose steps take so long: about a second of each."""
        plain = min(max(round(1 / step_s), 8), 60)
        if (self.workers, self.mbit) != SUITE_START:
            return Size(STEPS, plain)
        short = step_s < SHORT_S
        return Size(plain if short else 12, plain, short)

    def command(self, size: Size) -> tuple[str, ...]:
        """Steps enough for a warm-up, the plain ones before and after, and the recorded ones."""
        rest = TURNS_REST if size.turns else WARM
        steps = str(2 * size.plain + size.steps + rest)
        if self.parallel == SUITE:
            batch = str(suite.batch_of(self.model))
            line = ("-m", module_of(self.model), "--batch", batch, "--steps", steps)
            return (*FIRST, sys.executable, *line)
        if self.parallel == "ddp":
            script = [str(JOBS / "train.py"), "--out", os.devnull]
        else:
            script = [str(JOBS / "parallel.py"), "--parallel", self.parallel]
        return (*FIRST, sys.executable, *script, "--model", self.model, "--steps", steps)


Recordings = list[tuple[Setting, Graph, dict[str, Any]]]


def recordings(wanted: Sequence[Setting], effort: Effort) -> Recordings:
    """Each setting's typical step, and its plain steps; those that are missing are recorded. An
    error, once all others are there, where some could not be."""
    if failed := record_missing(wanted, effort):
        told = "\n".join(f"{key}: {why}" for key, why in failed.items())
        raise SystemExit(f"not recorded, and tried again by the next run:\n{told}")
    return kept_of(wanted, effort)


def record_missing(wanted: Sequence[Setting], effort: Effort) -> dict[str, str]:
    """Record what is not kept, in a fixed random order, until the effort is over. Second runs
    follow when all are recorded, and further ones where they are due. Why some could not be, by
    their key."""
    order, failed = random.Random(ORDER_SEED).sample(wanted, len(wanted)), dict[str, str]()
    for make in (_recorded, *[_again] * (MOST_RUNS - 1)):
        for setting in order:
            if effort.over:
                break
            try:
                make(setting, effort.since)
            except PacelineError as error:
                failed[setting.key] = str(error)
                print(f"{setting.key}: not recorded: {error}", file=sys.stderr, flush=True)
    return failed


def kept_of(wanted: Sequence[Setting], effort: Effort) -> Recordings:
    """Those that were run twice."""
    kept = load()
    found = [each for each in wanted if _twice(kept.get(each.key, {}), effort.since)]
    return [(each, load_graph(GRAPHS / each.key), kept[each.key]) for each in found]


def _twice(facts: Mapping[str, Any], since: str) -> bool:
    return "runs_s" in facts and facts["recorded"] >= since


def _recorded(setting: Setting, since: str) -> None:
    facts = load().get(setting.key)
    if facts is not None and facts["recorded"] >= since:
        return
    size = setting.size
    if setting.parallel == SUITE:
        size = setting.sized(statistics.median(plain_run(setting, size.plain)))
    graph, facts = record(setting, size=size)
    facts |= {"plain": size.plain}
    save_graph(graph, GRAPHS / setting.key)
    _keep(setting, facts)
    print(f"{setting.key}: {1e3 * facts['step_s']['median']:.1f} ms", file=sys.stderr, flush=True)


def _again(setting: Setting, since: str) -> None:
    """Another run of what is recorded: what all say together, and how far they differ."""
    facts = load().get(setting.key)
    if facts is None or not _due(setting, facts):
        return
    before = facts.pop("runs_s", None) or [facts.pop("steps_s")]
    runs = [*before, plain_run(setting, facts.get("plain", setting.size.plain))]
    steps = [step for run in runs for step in run]
    facts |= {"runs_s": runs, "step_s": spread(steps), "floor": floor(runs)}
    _keep(setting, facts)
    told = f"run {len(runs)}, floor {facts['floor']:.1%}"
    print(f"{setting.key}: {told}", file=sys.stderr, flush=True)


def _due(setting: Setting, facts: Mapping[str, Any]) -> bool:
    """Whether its runs do not say enough yet."""
    if "runs_s" not in facts:
        return True
    if setting.parallel != SUITE or len(facts["runs_s"]) >= MOST_RUNS:
        return False
    return bool(facts["floor"] > SUITE_ASKED / 2 / math.sqrt(2))


def floor(runs: Sequence[Sequence[float]]) -> float:
    """How far the median of these runs may lie off by chance: by what runs differ, and steps."""
    blocks = [
        statistics.median(run[at : at + BLOCK])
        for run in runs
        for at in range(0, len(run) - BLOCK + 1, BLOCK)
    ]
    between = floor_of([statistics.median(run) for run in runs]) if len(runs) > 1 else 0.0
    return round(max(between, floor_of(blocks)), 4)


def load() -> dict[str, Any]:
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


def _keep(setting: Setting, facts: dict[str, Any]) -> None:
    KEPT.write_text(json.dumps({**load(), setting.key: facts}, indent=0, sort_keys=True) + "\n")


def machine(key: str = MACHINE, *, fresh: bool = False) -> Machine:
    """The machine as it was when the settings were recorded, measured beside them; what rests
    cost is measured later where that was not known yet (`rests` says when)."""
    kept = load()
    row = {} if fresh else kept.get(key, {})
    if not row or not row.keys() >= RESTS:
        found = asdict(measured_machine())
        when = {
            "measured": datetime.now(timezone.utc).strftime(DATE),
            "load": round(os.getloadavg()[0], 2),
        }
        later = {**{name: found[name] for name in RESTS}, "rests": when}
        kept[key] = {**row, **later} if row else {**found, **when}
        KEPT.write_text(json.dumps(kept, indent=0, sort_keys=True) + "\n")
    of = {item.name for item in fields(Machine)}
    return Machine(**{name: value for name, value in kept[key].items() if name in of})


def record(
    setting: Setting,
    grain: Grain = Grain.EVENT,
    seen: Callable[[Path], None] = lambda folder: None,
    size: Size | None = None,
) -> tuple[Graph, dict[str, Any]]:
    """One recording in the lab: its typical step at that grain, and its plain steps. `seen` gets
    the recording's folder, which then goes."""
    with in_lab(setting, size or setting.size) as place:
        graph = open_run(place)
        measured = measured_run(place, graph)
        seen(place)
        steps = [ns / 1e9 for ns in measured.steps_ns]
        return condense(graph, grain), {
            "step_s": spread(steps),
            "steps_s": steps,
            "floor": floor([steps]),
            "load": round(os.getloadavg()[0], 2),
            "recorded": datetime.now(timezone.utc).strftime(DATE),
        }


def plain_run(setting: Setting, plain: int) -> list[float]:
    """Another run of the job: its steps without instruments, so many on either side of one."""
    with in_lab(setting, Size(1, plain)) as place:
        sidecars = [sidecar.read(path) for path in sorted(place.glob("rank-*.facts.jsonl"))]
        return [ns / 1e9 for ns in plain_steps(sidecars)]


@contextmanager
def in_lab(setting: Setting, size: Size) -> Iterator[Path]:
    """The job's recording, for as long as the context lasts."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch) / "run"
        command = setting.command(size)
        proof = Proof(command, cluster(setting.workers, setting.mbit), size.steps, 400.0)
        launch(
            RecordRequest(command, place, size.steps, size.plain, turns=size.turns),
            os.environ,
            recorded_in_lab(proof, Path(scratch) / "logs"),
        )
        yield place


def summary(rows: Sequence[dict[str, Any]], name: str, asked: float) -> dict[str, Any]:
    """Mean and worst error of the rows that can be judged, under a figure's name."""
    good, lost = told_apart(rows, asked)
    if not rows:
        return {}
    told: dict[str, Any] = {
        f"{name}_count": len(good),
        f"{name}_not_measurable": len(lost),
        f"{name}_rows": list(rows),
    }
    if not good:
        return told
    worst = max(good, key=lambda row: abs(row["error"]))
    return told | {
        f"{name}_mean_error": round(statistics.mean(abs(row["error"]) for row in good), 4),
        f"{name}_worst_error": round(abs(worst["error"]), 4),
        f"{name}_worst_row": {k: worst[k] for k in ("recorded", "predicted", "error")},
    }
