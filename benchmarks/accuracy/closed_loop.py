"""The loop in one command, held against what it promised: predicted, measured, and the bound.

Each row tunes one of three jobs with two workers in the lab, at one link rate and with one effect
allowed. `bound`: no exact plan that sends all gradients beats the larger of compute time and their
bytes over the link; one that sends what gradients are made of may. A fourth job has little to win:
`left_alone` says whether the loop left it as it was, or a trial showed a gain.
`vs_hand` sets the kept plan beside what PyTorch users would do by hand (a sweep of bucket_cap_mb,
ZeroRedundancyOptimizer, and where losses are allowed the fp16 and PowerSGD hooks). As plans do,
they take turns with the plain job: each of several rounds runs all of them and plain, in random
order, and a choice's gain is over the plain run of its own round. The best choice is named by one
half of the rounds and measured by the other, so that chance does not choose it; `hand_noise` is by
how much two runs of the same job in one round differ. A row whose loop kept no plan leaves the job
as it was: it measured 1.

`false_accepts` and `power` need no lab: `accuracy/resampled` draws them. `live_false_accepts`
counts live trials of a job against itself (`--itself N` makes N more).

Loops and rounds are kept in `benchmarks/results/closed-loop-rows.json` as they come, so that an
ended run goes on where it was, also within a row. `--budget MINUTES` ends the measuring; `--only
NAME`, `--mbit RATE` and `--fresh` choose and repeat. `--quick` makes one row, with less patience,
and keeps none.
"""

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import kept, measure
from benchmarks.accuracy import calibrated, resampled
from benchmarks.accuracy.cells import DATE, cluster
from paceline.errors import PacelineError
from paceline.lab import Lab
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
WARM = 3

EXACT_BY_HAND = {
    **{f"bucket_cap_mb={mb}": ("--bucket-mb", str(mb)) for mb in (1, 5, 10, 25, 50)},
    "ZeroRedundancyOptimizer": ("--parallel", "zero"),
}
BY_HAND = {
    Effect.EXACT: EXACT_BY_HAND,
    Effect.LOSSY: {**EXACT_BY_HAND, "fp16 hook": ("--hook", "fp16"),
                   "PowerSGD hook": ("--hook", "powersgd")},
}  # fmt: skip

Row = dict[str, Any]
Stage = Callable[["Cell", Row, "Effort"], Row]


@dataclass(frozen=True)
class Effort:
    """How much is measured of a row."""

    row_s: float = 600.0  # for its loop
    hand_s: float = 8.0  # of steps of each choice by hand, about, over all rounds
    rounds: int = 4  # of the choices by hand


QUICK = Effort(240.0, 2.0, 2)


class Ledger:
    """What was measured: with those of earlier runs where it keeps them."""

    def __init__(self, *, keeps: bool) -> None:
        self.rows: dict[str, Any] = kept.load(ROWS) if keeps else {}
        self._keeps = keeps

    def of(self, cell: "Cell") -> Row:
        found: Row = self.rows.get(cell.key, {})
        return found

    def keep(self, key: str, row: Any) -> None:
        self.rows[key] = row
        if self._keeps:
            kept.keep(ROWS, self.rows)


@dataclass(frozen=True)
class Cell:
    """A job, its links, and what a plan may do."""

    job: str
    mbit: int
    effect: Effect

    @property
    def key(self) -> str:
        return f"{self.job} {self.mbit} Mbit/s {self.effect.value}"


LEFT = Cell(SATISFIED, max(RATES_MBIT), Effect.EXACT)
"""The job that has little to win."""


def main() -> None:
    parser = measure.parser(__doc__ or "")
    parser.add_argument("--budget", type=float, default=30.0, metavar="MINUTES")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="of a job")
    parser.add_argument("--mbit", type=int, choices=RATES_MBIT, help="of the links")
    parser.add_argument("--itself", type=int, default=0, metavar="N", help="live trials more")
    parser.add_argument("--fresh", action="store_true", help="measure what is asked for anew")
    options = parser.parse_args()
    found = measured(options, Ledger(keeps=not options.quick))
    measure.report("accuracy/closed_loop", found, options, "torch")


def measured(options: argparse.Namespace, ledger: Ledger) -> dict[str, Any]:
    """What is missing, as far as the budget goes; and the figures of all that is kept."""
    end = time.monotonic() + 60 * options.budget
    effort = QUICK if options.quick else Effort()
    for cell in cells(options) if options.fresh else ():
        ledger.rows.pop(cell.key, None)
    for stage, cell in stages(cells(options), effort):
        if time.monotonic() > end:
            break
        if next_stage(ledger.of(cell), effort) is stage:
            ledger.keep(cell.key, stage(cell, ledger.of(cell), effort))
    for _ in range(options.itself):
        if time.monotonic() < end:
            ledger.keep("itself", [*ledger.rows.get("itself", []), against_itself()])
    pairs = resampled.PAIRS // 10 if options.quick else resampled.PAIRS
    return figures(ledger, cells(options), pairs)


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


def stages(asked: Sequence[Cell], effort: Effort) -> Iterator[tuple["Stage", Cell]]:
    """The loops of all rows come first, so that a short budget shows what each brought; then the
    choices by hand, a round of each row in turn."""
    for stage in (looped, *[by_hand] * effort.rounds):
        for cell in asked:
            yield stage, cell


def next_stage(row: Row, effort: Effort) -> "Stage | None":
    """What a row lacks: its loop, or a round of the choices by hand; None of a whole one."""
    if "decision" not in row and "failed" not in row:
        return looped
    whole = "failed" in row or len(row.get("hand_rounds", ())) >= effort.rounds
    return None if whole else by_hand


def looped(cell: Cell, _: Row, effort: Effort) -> Row:
    """One loop."""
    moment = datetime.now(timezone.utc).strftime(DATE)
    told = {"job": cell.job, "mbit": cell.mbit, "effect": cell.effect.value, "measured_at": moment}
    try:
        with tempfile.TemporaryDirectory(prefix="paceline-loop-") as folder:
            asked = request(cell, Path(folder), effort)
            row = {**told, **loop_row(cell, tune(asked, environment()))}
    except PacelineError as error:
        row = {**told, "failed": str(error)[-600:]}
    return said(cell, {**row, "load": round(os.getloadavg()[0], 2)})


def by_hand(cell: Cell, row: Row, effort: Effort) -> Row:
    """One more round of what users do by hand."""
    rounds = row.get("hand_rounds", [])
    try:
        rounds = [*rounds, hand_round(cell, len(rounds), effort)]
    except PacelineError as error:
        return said(cell, {**row, "failed": str(error)[-600:]})
    row = {**row, "hand_rounds": rounds}
    if len(rounds) < effort.rounds:
        return said(cell, row)
    return said(cell, {**row, "hand_noise": noise(rounds), **versus(row, rounds)})


def said(cell: Cell, row: Row) -> Row:
    print(f"{cell.key}: {row}", file=sys.stderr, flush=True)
    return row


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
        "findings": [f"{t.outcome.finding.value}: {t.outcome.cause}" for t in tuned.trials],
    }


def floor_ns(cell: Cell, tuned: Tuned) -> float:
    """What no exact plan beats: the work of a worker, or its bytes at the link's rate."""
    assert tuned.found is not None, "the loop came this far"
    work = sum(tuned.before.by_class.get(name, 0) for name in WORK_CLASSES)
    wire = tuned.found.unchanged.sends * 8 / (cell.mbit * 1e6) * 1e9
    return max(float(work), wire)


def hand_round(cell: Cell, number: int, effort: Effort) -> dict[str, float]:
    """The median step of the plain job and of each choice in jobs of their own, in ms."""
    guess_s = 0.2 + 2 * 25.0 * 8 / cell.mbit / 2
    steps = max(6, min(40, round(effort.hand_s / guess_s / effort.rounds)))
    choices = [("plain", ()), *BY_HAND[cell.effect].items()]
    random.Random(f"{cell.key} {number}").shuffle(choices)
    return {name: hand_ms(cell, options, steps) for name, options in choices}


def hand_ms(cell: Cell, options: Sequence[str], steps: int) -> float:
    with (
        tempfile.TemporaryDirectory(prefix="paceline-hand-") as folder,
        Lab(cluster(WORKERS, cell.mbit)) as lab,
    ):
        out = Path(folder) / "times"
        job = (sys.executable, str(JOB), "--model", cell.job, *options)
        shown = ("--steps", str(steps + WARM), "--times", str(out))
        lab.run((*job, *shown), timeout_s=300, environment=environment(), logs=Path(folder))
        walls = [wall for wall, _ in json.loads(Path(f"{out}.0").read_text())][WARM:]
    return round(statistics.median(walls) / 1e6, 2)


def versus(row: Row, rounds: Sequence[dict[str, float]]) -> Row:
    """The loop's answer over the best choice by hand; it leaves the plain job where it kept no
    plan. Every second round names the best, the others measure it."""
    named = {name: gain_by_hand(rounds[::2], name) for name in rounds[0]}
    best = max(named, key=lambda name: named[name])
    ours, theirs = row["measured"] if row["kept"] else 1.0, gain_by_hand(rounds[1::2], best)
    gains = {name: round(gain_by_hand(rounds, name), 4) for name in sorted(rounds[0])}
    return {"best_hand": best, "hand_gains": gains, "vs_hand": round(ours / theirs, 4)}


def gain_by_hand(rounds: Sequence[dict[str, float]], name: str) -> float:
    """How many times as fast as the plain run of its round; the plain job itself is 1."""
    return statistics.median(each["plain"] / each[name] for each in rounds)


def noise(rounds: Sequence[dict[str, float]]) -> float:
    """How far two runs of the same job in one round are apart: 25 MB are what DDP takes by itself.
    What the loop's answer differs by less from the best choice is chance."""
    return round(statistics.median(abs(r["bucket_cap_mb=25"] / r["plain"] - 1) for r in rounds), 4)


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


def figures(ledger: Ledger, asked: Sequence[Cell], pairs: int) -> dict[str, Any]:
    """Over the rows that are kept."""
    known = ledger.rows
    rows = [known[cell.key] for cell in asked if cell.key in known]
    good = [row for row in rows if "failed" not in row]
    exact = [row for row in good if row["effect"] == "exact" and row["bound"] > 1.05]
    shares = [((row["measured"] if row["kept"] else 1) - 1) / (row["bound"] - 1) for row in exact]
    ratios = [row["measured"] / row["predicted"] for row in good if row["plan"]]
    hands = [row["vs_hand"] for row in good if "vs_hand" in row]
    mlp = {effect: known.get(Cell("mlp", 100, effect).key, {}) for effect in EFFECTS}
    left = known.get(LEFT.key, {})
    itself = known.get("itself", [])
    return {
        "rows_asked": len(asked),
        "rows_share": round(len(good) / len(asked), 4),
        "rows": rows,
        "measured_of_predicted_worst": round(min(ratios), 4) if ratios else None,
        "exact_gain_share": round(min(shares), 4) if shares else None,
        **{f"{e.value}_mlp_100": r["measured"] if r.get("kept") else None for e, r in mlp.items()},
        "left_alone": (not left["kept"] or left["low"] > 1) if "kept" in left else None,
        "vs_best_hand": round(min(hands), 4) if hands else None,
        "vs_best_hand_median": round(statistics.median(hands), 4) if hands else None,
        "live_trials_of_itself": len(itself),
        "live_false_accepts": sum(r["finding"] == Finding.FASTER.value for r in itself),
        **resampled.figures(pairs),
    }


if __name__ == "__main__":
    main()
