"""The loop in one command, held against what it promised: predicted, measured, and the bound.

Each row tunes one of three jobs with two workers in the lab, at one link rate and with one effect
allowed. `bound`: no exact plan that sends all gradients beats the larger of compute time and their
bytes over the link; one that sends what gradients are made of may. `bound_on_cores` adds to compute
what TCP takes of the same cores for these bytes. A fourth job has little to win, and counts in no
share of gains: `left_alone` says whether the loop left it as it was, or a trial showed a gain.
`vs_hand` sets the kept plan beside the best of what PyTorch users would do by hand (`by_hand`). A
row whose loop kept no plan leaves the job as it was: it measured 1.

`false_accepts` and `power` need no lab: `accuracy/resampled` draws them. `live_false_share` is
of live trials of a job against itself (`--itself N` makes N of them).

Loops, the rounds by hand of each job and rate, and trials are kept as they come in
`benchmarks/results/closed-loop-rows.json`, so that an ended run goes on where it was. `--budget
MINUTES` ends the measuring; `--only NAME`, `--mbit RATE` and `--fresh` choose and repeat. `--quick`
makes one row, with less patience, and keeps none.
"""

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import kept, measure
from benchmarks.accuracy import by_hand, calibrated, resampled
from benchmarks.accuracy.cells import DATE, cluster
from paceline.errors import PacelineError
from paceline.predict import WORK_CLASSES, Question
from paceline.search import Goal
from paceline.strategies import Effect
from paceline.trial import (
    Finding,
    Patience,
    Timetable,
    TrialRequest,
    Tried,
    in_lab,
    try_plan,
)
from paceline.tune import Tuned, TuneRequest, Where, tune

ROWS = "closed-loop"
JOB = Path(__file__).parents[2] / "examples" / "train.py"
JOBS = ("resnet20", "transformer", "mlp")
SATISFIED = "cnn"  # 0.2 MB of gradients a step
RATES_MBIT = (100, 500, 1000)
EFFECTS = (Effect.EXACT, Effect.LOSSY)
WORKERS = 2

Row = dict[str, Any]


@dataclass(frozen=True)
class Effort:
    """How much is measured of a row."""

    row_s: float = 600.0  # for its loop
    hand_s: float = 8.0  # of steps of each choice by hand, about, over all rounds
    rounds: int = 4  # of the choices by hand


QUICK = Effort(240.0, 2.0, 2)
LEAST_STEPS = 3  # of a choice by hand, in a round


@dataclass(frozen=True)
class Cell:
    """A job, its links, and what a plan may do."""

    job: str
    mbit: int
    effect: Effect

    @property
    def key(self) -> str:
        return f"{self.job} {self.mbit} Mbit/s {self.effect.value}"

    @property
    def hand_key(self) -> str:
        """The choices by hand are the same whatever a plan may do."""
        return f"{self.job} {self.mbit} Mbit/s by hand"


LEFT = Cell(SATISFIED, max(RATES_MBIT), Effect.EXACT)
"""The job that has little to win."""


def main() -> None:
    parser = measure.parser(__doc__ or "")
    parser.add_argument("--budget", type=float, default=30.0, metavar="MINUTES")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="of a job")
    parser.add_argument("--mbit", type=int, choices=RATES_MBIT, help="of the links")
    parser.add_argument("--itself", type=int, default=0, metavar="N", help="live trials")
    parser.add_argument("--fresh", action="store_true", help="measure what is asked for anew")
    options = parser.parse_args()
    pairs = resampled.PAIRS // 10 if options.quick else resampled.PAIRS
    found = figures(measured(options), cells(options), pairs)
    measure.report("accuracy/closed_loop", found, options, "torch")


def measured(options: argparse.Namespace) -> dict[str, Row]:
    """What is kept, and of what is missing as much as the budget makes."""
    makers = makers_of(cells(options), QUICK if options.quick else Effort())
    if options.quick:
        return {key: make() for key, make in makers.items()}
    makers |= {f"itself {number}": against_itself for number in range(options.itself)}
    made = kept.rows(ROWS, makers, options.budget, fresh=options.fresh)
    return kept.load(ROWS) | made


def cells(options: argparse.Namespace) -> list[Cell]:
    """The fastest first, so that a short budget shows something of each job."""
    every = [
        *(Cell(job, mbit, how) for mbit in reversed(RATES_MBIT) for how in EFFECTS for job in JOBS),
        LEFT,
    ]
    found = [
        cell
        for cell in every
        if options.mbit in (None, cell.mbit) and (not options.only or cell.job in options.only)
    ]
    return found[:1] if options.quick else found


def makers_of(asked: Sequence[Cell], effort: Effort) -> dict[str, Callable[[], Row]]:
    """The loops of all rows come first, so that a short budget shows what each brought; then the
    choices by hand."""
    loops = {cell.key: partial(looped, cell, effort) for cell in asked}
    return loops | {cell.hand_key: partial(hand_rounds, cell, effort) for cell in asked}


def looped(cell: Cell, effort: Effort) -> Row:
    """One loop."""
    told = {"job": cell.job, "mbit": cell.mbit, "effect": cell.effect.value, "measured_at": now()}
    try:
        with tempfile.TemporaryDirectory(prefix="paceline-loop-") as folder:
            asked = request(cell, Path(folder), effort)
            return {**told, **loop_row(cell, tune(asked, environment()))}
    except PacelineError as error:
        return {**told, "failed": str(error)[-600:]}


def hand_rounds(cell: Cell, effort: Effort) -> Row:
    """What users do by hand, in turn with the plain job."""
    guess_s = 0.2 + 25.0 * 8 / cell.mbit  # of a plain step
    steps = max(LEAST_STEPS, min(20, round(effort.hand_s / guess_s / effort.rounds)))
    try:
        rounds = by_hand.rounds_of(cell.job, cell.mbit, WORKERS, effort.rounds, steps)
    except PacelineError as error:
        raise kept.NotMade(str(error)[-600:]) from error
    return {"rounds": rounds, "measured_at": now()}


def now() -> str:
    return datetime.now(timezone.utc).strftime(DATE)


def request(cell: Cell, folder: Path, effort: Effort) -> TuneRequest:
    made = calibrated.now()
    place = cluster(WORKERS, cell.mbit)
    where = Where(made.applied(place), Question(calibrated.machine(made), made))
    command = (sys.executable, str(JOB), "--model", cell.job, "--steps", "100000")
    goal = Goal(cell.effect, budget_s=20.0)
    return TuneRequest(
        command, folder, goal, where=where, place=in_lab(place), budget_s=effort.row_s, hang_s=120.0
    )


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def loop_row(cell: Cell, tuned: Tuned) -> Row:
    """Times as fast: predicted, measured, and at the bound."""
    last = tuned.trials[-1] if tuned.trials else None
    gain = last.outcome.gain if last is not None else None
    before_ns = statistics.median(tuned.recorded.plain_ns)
    return {
        "decision": tuned.decision.value,
        "plan": [str(change) for change in last.outcome.plan] if last else [],
        "predicted": round(last.expected.times, 4) if last else 1.0,
        "measured": round(gain.times, 4) if gain else 1.0,
        "low": round(1 + gain.low, 4) if gain else 1.0,
        "high": round(1 + gain.high, 4) if gain else 1.0,
        "floor": round(gain.floor, 4) if gain else None,
        "kept": tuned.kept is not None,
        "step_ms": round(before_ns / 1e6, 2),
        "predicted_step_ms": round(tuned.before.step_ns / 1e6, 2),
        "bound": round(max(1.0, before_ns / floor_ns(cell, tuned)), 4),
        "bound_on_cores": round(max(1.0, before_ns / floor_ns(cell, tuned, on_cores=True)), 4),
        "findings": [f"{t.outcome.finding.value}: {t.outcome.cause}" for t in tuned.trials],
    }


def floor_ns(cell: Cell, tuned: Tuned, *, on_cores: bool = False) -> float:
    """What no exact plan beats: the work of a worker, or its bytes at the link's rate. `on_cores`:
    what TCP takes for these bytes of the same cores, alone, comes to the work."""
    assert tuned.found is not None, "the loop came this far"
    work = float(sum(tuned.before.by_class.get(name, 0) for name in WORK_CLASSES))
    sends = tuned.found.unchanged.sends
    if on_cores:
        machine = calibrated.machine(calibrated.now())
        work += WORKERS * sends * machine.cpu_ns_per_byte / max(WORKERS, machine.cores)
    return max(work, sends * 8 / (cell.mbit * 1e6) * 1e9)


def against_itself() -> Row:
    """A live trial of a job without any change."""
    with tempfile.TemporaryDirectory(prefix="paceline-itself-") as folder:
        job = (sys.executable, str(JOB), "--model", "small", "--steps", "100000")
        asked = TrialRequest(
            job, Path(folder), Tried(()), Timetable(a_side=60), Patience(120.0, 60.0)
        )
        outcome = try_plan(asked, environment(), in_lab(cluster(WORKERS, 1000)))
    gain = outcome.gain
    return {"finding": outcome.finding.value, "measured": round(gain.times, 4) if gain else None}


def row_of(cell: Cell, known: Mapping[str, Row]) -> Row:
    """Its loop, beside the best choice by hand where that was measured."""
    row = known[cell.key]
    if cell.hand_key not in known or "failed" in row:
        return row
    plan = row["measured"] if row["kept"] else 1.0
    return {**row, **by_hand.versus(plan, cell.effect, known[cell.hand_key]["rounds"])}


def figures(known: Mapping[str, Row], asked: Sequence[Cell], pairs: int) -> dict[str, Any]:
    """Over the rows that are kept."""
    rows = [row_of(cell, known) for cell in asked if cell.key in known]
    good = [row for row in rows if "failed" not in row]
    exact = [r for r in good if r["effect"] == "exact" and r["bound"] > 1.05]
    exact = [r for r in exact if r["job"] in JOBS]  # the fourth is to be left alone
    shares = [_share(row, "bound") for row in exact]
    reached = [
        _share(row, "bound_on_cores") for row in exact if row.get("bound_on_cores", 1) > 1.02
    ]
    ratios = [row["measured"] / row["predicted"] for row in good if row["plan"]]
    hands = [row["vs_hand"] for row in good if "vs_hand" in row]
    mlp = {effect: known.get(Cell("mlp", 100, effect).key, {}) for effect in EFFECTS}
    left = known.get(LEFT.key, {})
    itself = [row for key, row in known.items() if key.startswith("itself ")]
    return {
        "rows_asked": len(asked),
        "rows_share": round(len(good) / len(asked), 4),
        "rows": rows,
        "measured_of_predicted_worst": round(min(ratios), 4) if ratios else None,
        "exact_gain_share": round(min(shares), 4) if shares else None,
        "exact_gain_share_on_cores": round(min(reached), 4) if reached else None,
        **{f"{e.value}_mlp_100": r["measured"] if r.get("kept") else None for e, r in mlp.items()},
        "left_alone": (not left["kept"] or left["low"] > 1) if "kept" in left else None,
        "vs_best_hand": round(min(hands), 4) if hands else None,
        "vs_best_hand_median": round(statistics.median(hands), 4) if hands else None,
        "behind_best_hand": sum(r["vs_hand"] < 1 - r["hand_noise"] for r in good if "vs_hand" in r),
        "live_trials_of_itself": len(itself),
        "live_false_share": statistics.mean(map(_called_faster, itself)) if itself else None,
        **resampled.figures(pairs),
    }


def _share(row: Row, bound: str) -> float:
    """Of the gain that a bound allows."""
    measured: float = row["measured"] if row["kept"] else 1.0
    share: float = (measured - 1) / (row[bound] - 1)
    return share


def _called_faster(row: Row) -> bool:
    found: bool = row["finding"] == Finding.FASTER.value
    return found


if __name__ == "__main__":
    main()
