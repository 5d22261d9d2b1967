"""One trial: the user's own command, run with a plan switched on and off in it, and what it showed.

A plan that cannot be switched within a run gets runs of its own, short ones, which take turns. A
job that crashes or hangs is ended with all that it started, and the trial says why.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from paceline.launch import Process
from paceline.record.launch import hooked
from paceline.strategies import Effect, Strategy
from paceline.trial.blocks import Side, Timetable, TrialBlock, apart, in_turn, steps_of
from paceline.trial.failure import Failure, failure_of, oom_kills
from paceline.trial.lines import ended_all, files_of, read_all
from paceline.trial.losses import loss_check
from paceline.trial.outcome import Finding, Outcome, finding_of
from paceline.trial.places import Place, Ran, Watching, logged
from paceline.trial.series import Series, merged, samples_of, series_of
from paceline.trial.settings import TrialSettings, environment_of
from paceline.trial.significance import gain_of

START_S = 120.0  # until a job's first step


@dataclass(frozen=True)
class Patience:
    """How long a trial may take, and how long a step before the job is said to hang."""

    limit_s: float = 600.0
    hang_s: float = 60.0


@dataclass(frozen=True)
class Tried:
    """The plan that is tried. A step under it is of `batch` recorded batches, and the job repeats
    itself every `period` steps."""

    plan: tuple[Strategy, ...]
    effect: Effect = Effect.EXACT
    period: int = 1
    batch: float = 1.0


@dataclass(frozen=True)
class TrialRequest:
    """What to run, in which folder what it writes is kept, and how much is measured."""

    command: tuple[str, ...]
    folder: Path
    tried: Tried
    table: Timetable = field(default_factory=Timetable)
    patience: Patience = Patience()
    losses: Mapping[int, float] = field(default_factory=dict)
    """Of the job without a plan, by step, from another run of it."""


def try_plan(request: TrialRequest, environment: Mapping[str, str], place: Place) -> Outcome:
    """Run the trial. The job that the user will run is left as it is."""
    runs: list[Series] = []
    for folder, blocks in _runs_of(request):
        ran, kills = _run(request, folder, blocks, environment, place)
        found = read_all(folder)
        runs.append(series_of(found))
        failure = failure_of(ran, found, kills, request.patience.hang_s)
        if failure is not None:
            return _failed(request, runs, failure)
    return judged(request, merged(runs))


def judged(request: TrialRequest, series: Series) -> Outcome:
    """What a trial's steps show."""
    tried, table = request.tried, request.table
    gain = gain_of(samples_of(series, tried.period, tried.batch), table.block, table.seed)
    plan, rest = (
        [s.wall_ns for s in series.of(*sides)]
        for sides in ((Side.PLAN,), (Side.BASELINE, Side.AGAIN))
    )
    if gain is None:
        return Outcome(tried.plan, Finding.NO_STEPS, _too_few(request, series))
    loss = loss_check(series, tried.effect, request.losses)
    finding, cause = finding_of(gain, loss)
    baseline_ns = median(rest)
    return Outcome(
        tried.plan, finding, cause, gain, baseline_ns, baseline_ns / gain.times, len(plan), loss,
        tuple(map(round, plan)), tuple(map(round, rest)),
    )  # fmt: skip


def can_take_turns(plan: Sequence[Strategy]) -> bool:
    return all(change.in_turns for change in plan)


def _runs_of(request: TrialRequest) -> Iterator[tuple[Path, tuple[TrialBlock, ...]]]:
    if can_take_turns(request.tried.plan):
        yield request.folder, in_turn(request.table)
        return
    for number, blocks in enumerate(apart(request.table), 1):
        yield request.folder / f"run-{number}", blocks


def _run(
    request: TrialRequest,
    folder: Path,
    blocks: Sequence[TrialBlock],
    environment: Mapping[str, str],
    place: Place,
) -> tuple[Ran, int]:
    """How the run ended, and how many processes the kernel killed for memory meanwhile."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in files_of(folder):
        old.unlink()
    told = TrialSettings(
        str(folder.resolve()),
        [str(change.settled()) for change in request.tried.plan],
        list(blocks),
        request.patience.limit_s,
    )
    process = Process(request.command, {**hooked(environment), **environment_of(told)})
    before = oom_kills()
    ran = place(logged(process, folder / "job.log"), watching(folder, request.patience))
    return ran, oom_kills() - before


def watching(folder: Path, patience: Patience) -> Watching:
    """A job has done enough when every rank has written its last line."""
    return Watching(
        lambda: ended_all(files_of(folder)),
        grows(folder, patience.hang_s),
        patience.limit_s + patience.hang_s + START_S,
    )


def grows(folder: Path, hang_s: float) -> Callable[[], bool]:
    """Whether a job hangs: no rank has written to its folder for so long."""
    last = [time.monotonic(), 0.0]  # when it last grew, and to what

    def hangs() -> bool:
        size = sum(map(_size, folder.glob("rank-*")))
        now = time.monotonic()
        if size != last[1]:
            last[:] = [now, size]
        return now - last[0] > (hang_s if size else max(START_S, hang_s))

    return hangs


def _size(path: Path) -> int:
    """0 of a file that was renamed since it was seen."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _failed(request: TrialRequest, runs: Sequence[Series], failure: Failure) -> Outcome:
    last = runs[-1]
    planned = bool(last.of(Side.PLAN)) or _was_under(last)
    where = "under the plan" if planned else "before the plan was in force"
    steps = sum(len(run.of(Side.PLAN)) for run in runs)
    return Outcome(request.tried.plan, failure.finding, f"{failure.cause}, {where}", steps=steps)


def _was_under(series: Series) -> bool:
    """Whether the step that never ended was one of the plan's, as far as the last one tells."""
    if not series.steps:
        return False
    last = series.steps[-1]
    done = sum(1 for s in series.steps if s.block == last.block)
    block = series.blocks[last.block]
    over = done >= block.warm + block.steps and last.block + 1 < len(series.blocks)
    return series.blocks[last.block + over].side is Side.PLAN


def _too_few(request: TrialRequest, series: Series) -> str:
    first = [b for b in in_turn(request.table) if b.round < 1]
    return (
        f"the job ended after {len(series.steps) + 1} steps, and a round with and without the plan "
        f"takes {steps_of(first)}; let the script train for longer, or give a smaller --block"
    )
