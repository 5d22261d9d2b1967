"""autotune: the schedule, back end and settings that are fastest on these workers.

    tuned = autotune(adam(n, group), peers)
    print(tuned.chosen)

Every worker calls it with the same arguments. Schedules times back ends times settings are
enumerated; what cannot be made or run is refused with its reason; the rest is ordered by predicted
time (replay of the program's graph at measured rates, unless a `predict` is given) and all but the
best few pruned. Those are checked against the incumbent's results, timed in turn with it, and one
replaces it only where a paired test says that it is faster. The winner's other settings meet it in
a final. All ranks
decide by the slowest rank's times.
"""

import logging
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from paceline.measure.torch_probe import probed_speeds, settle
from paceline.weave import cache
from paceline.weave.backend import Backend, Executable, Peers
from paceline.weave.backends import backend, names, trial
from paceline.weave.backends.torch_collectives import device
from paceline.weave.backends.trial import agrees, filled, numbers
from paceline.weave.host import HostSettings
from paceline.weave.program import Program
from paceline.weave.replayed import replayed_s
from paceline.weave.rules import WeaveError
from paceline.weave.schedules import Schedule, schedules
from paceline.weave.significance import p_faster
from paceline.weave.traffic import Rates
from paceline.weave.transforms import Refusal
from paceline.weave.tuning import Candidate, CandidateOutcome, Tuned, TuningRow

log = logging.getLogger("paceline.weave")

Predict = Callable[[Program, Backend], float]
"""Seconds that a program will take on a back end."""


@dataclass(frozen=True)
class Budget:
    """How much to try: candidates that are timed, rounds, and the certainty asked for."""

    keep: int = 4
    rounds: int = 12
    p: float = 0.05


def autotune(
    written: Program,
    peers: Peers,
    *,
    backends: tuple[str, ...] | None = None,
    budget: Budget | None = None,
    predict: Predict | None = None,
    place: Path | None = None,
) -> Tuned:
    """The best candidate; the program as written on the first able back end is the incumbent.
    `place` is the folder of the cache; None is the user's."""
    wanted = names() if backends is None else backends
    host = HostSettings.here()
    place = host.cache if place is None else place
    key = cache.key(written, wanted, budget)
    if kept := _shared(cache.load(place, key) if peers.rank == min(written.world) else None):
        return Tuned.from_document(kept)
    search = _Search(written, peers, budget or Budget(), {n: backend(n, host) for n in wanted})
    tuned = search.run(predict or by_rates(Rates.of(probed_speeds(device()))))
    if peers.rank == min(written.world):
        cache.keep(place, key, tuned.document())
    return tuned


def program_of(written: Program, chosen: Candidate) -> Program:
    """The program that a candidate runs."""
    return next(s for s in schedules(written) if s.name == chosen.schedule).program


def _shared(document: Any) -> Any:
    """The lowest rank's document on all ranks."""
    box = [document]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def by_rates(rates: Rates) -> Predict:
    """By replay at these rates; where a back end shares memory, no wire is crossed."""

    def predict(program: Program, runner: Backend) -> float:
        return replayed_s(program, replace(rates, shared_memory=runner.shares_memory))

    return predict


def candidates(
    made: Iterable[Schedule], runners: Mapping[str, Backend], predict: Predict
) -> list[TuningRow]:
    """A row for each schedule on each back end with each setting: predicted, or refused."""
    said = {name: runner.capabilities() for name, runner in runners.items()}
    able = {name: runner for name, runner in runners.items() if said[name] is None}
    rows = [row for schedule in made for row in _rows(schedule, able, predict)]
    unable = [(name, reason) for name, reason in said.items() if reason is not None]
    return rows + [_refused("any", name, reason) for name, reason in unable]


def _rows(schedule: Schedule, runners: Mapping[str, Backend], predict: Predict) -> list[TuningRow]:
    if isinstance(schedule.made, Refusal):
        return [_refused(schedule.name, "any", schedule.made.reason)]
    rows = []
    for name, runner in runners.items():
        if (why := _refusal(runner, schedule.made)) is not None:
            rows.append(_refused(schedule.name, name, why))
            continue
        seconds = predict(schedule.made, runner)
        for settings in runner.tunables(schedule.made):
            candidate = Candidate(schedule.name, name, dict(settings))
            rows.append(TuningRow(candidate, CandidateOutcome.PREDICTED, predicted_s=seconds))
    return rows


def _refused(schedule: str, runner: str, reason: str) -> TuningRow:
    return TuningRow(Candidate(schedule, runner), CandidateOutcome.REFUSED, reason=reason)


@dataclass(frozen=True, eq=False)
class _Ready:
    """A candidate that is compiled on every worker."""

    row: TuningRow
    executable: Executable


class _Search:
    """One tuning run."""

    def __init__(
        self, written: Program, peers: Peers, budget: Budget, runners: Mapping[str, Backend]
    ) -> None:
        self._written, self._peers, self._budget = written, peers, budget
        self._runners = runners
        self._programs = {s.name: s for s in schedules(written)}
        self._numbers = numbers(written)
        self._reference: trial.TrialResult | None = None  # the first to run: the incumbent

    def run(self, predict: Predict) -> Tuned:
        rows = candidates(self._programs.values(), self._runners, predict)
        able = [r for r in rows if r.outcome is CandidateOutcome.PREDICTED]
        if not able:
            shown = "; ".join(f"{r.candidate}: {r.reason}" for r in rows)
            raise WeaveError(f"nothing can run {self._written.name}: {shown}")
        first = self._incumbent(able)
        ordered = sorted((r for r in able if r is not first), key=lambda r: r.predicted_s or 0.0)
        timed, pruned = _diverse(ordered, self._budget.keep)
        refused = [r for r in rows if r.outcome is CandidateOutcome.REFUSED]
        heat = self._race([first, *timed])
        settings = [r for r in pruned if _kind(r) == _kind(_winner(heat))][: self._budget.keep]
        final = self._final(_winner(heat), settings) if settings else [_winner(heat)]
        lost = [r for r in heat if r is not _winner(heat)]
        left = [_pruned(r, timed) for r in pruned if r not in settings]
        return Tuned(_winner(final).candidate, (*final, *lost, *left, *refused))

    def _final(self, winner: TuningRow, settings: list[TuningRow]) -> list[TuningRow]:
        """The winner's other settings against it; it may lose to one of them."""
        best, *others = self._race([winner, *settings])
        if best.outcome is CandidateOutcome.INCUMBENT:
            best = replace(best, outcome=CandidateOutcome.SLOWER, p=None)
        return [best, *others]

    def _incumbent(self, able: list[TuningRow]) -> TuningRow:
        """What runs without tuning: the program as written, plainly where that is allowed."""
        as_written = [r for r in able if r.candidate.schedule == next(iter(self._programs))]
        plainly = [r for r in as_written if r.candidate.backend == "plain"]
        return (plainly or as_written or able)[0]

    def _race(self, rows: list[TuningRow]) -> list[TuningRow]:
        """Compile, check, time in turn; the incumbent changes only for a certain gain."""
        ready, failed = self._compiled(rows)
        try:
            times = self._times(ready)
        finally:
            for entry in ready:
                entry.executable.close()
        return [*decide([e.row for e in ready], times, self._budget.p), *failed]

    def _compiled(self, rows: list[TuningRow]) -> tuple[list[_Ready], list[TuningRow]]:
        ready: list[_Ready] = []
        failed: list[TuningRow] = []
        for row in rows:
            made = self._programs[row.candidate.schedule].program
            executable, reason = self._compile(row, made)
            if executable is None:
                failed.append(replace(row, outcome=CandidateOutcome.REFUSED, reason=reason))
                continue
            result = self._one_run(executable, made)
            self._reference = self._reference or result
            if _everyone(agrees(result, self._reference, self._peers)):
                ready.append(_Ready(row, executable))
            else:
                executable.close()
                reason = "differs from the program as written"
                failed.append(replace(row, outcome=CandidateOutcome.WRONG, reason=reason))
        return ready, failed

    def _compile(self, row: TuningRow, made: Program) -> tuple[Executable | None, str]:
        """On all workers, or on none."""
        executable, reason = None, "another worker could not compile it"
        try:
            runner = self._runners[row.candidate.backend]
            executable = runner.compile(made, self._peers, row.candidate.tunables)
        except WeaveError as error:
            reason = str(error)
        if not _everyone(executable is not None):
            if executable is not None:
                executable.close()
            return None, reason
        return executable, ""

    def _one_run(self, executable: Executable, made: Program) -> trial.TrialResult:
        filled(executable, made, self._peers)
        returned = executable.run(self._numbers)
        held = {**executable.buffers, **returned}
        return trial.TrialResult(made, {k: v.clone() for k, v in held.items()})

    def _times(self, ready: list[_Ready]) -> list[list[float]]:
        """Seconds of each candidate in each round: the slowest rank's."""
        times = [[0.0] * self._budget.rounds for _ in ready]
        for turn in range(self._budget.rounds):
            for place, entry in enumerate(ready):
                dist.barrier()
                begin = time.perf_counter()
                entry.executable.run(self._numbers)
                settle(device())
                times[place][turn] = time.perf_counter() - begin
        worst = torch.tensor(times, dtype=torch.float64, device=device())
        dist.all_reduce(worst, dist.ReduceOp.MAX)
        found: list[list[float]] = worst.tolist()
        return found


def _refusal(runner: Backend, program: Program) -> str | None:
    """Why a back end is not a candidate for a program."""
    if program.kernels and not runner.fuses:
        return f"{runner.name} fuses nothing: it would run as the unfused schedule"
    if program.overlaps and not runner.overlaps:
        return f"{runner.name} overlaps nothing: it would run as the serial schedule"
    return runner.refusal(program)


def decide(rows: list[TuningRow], times: list[list[float]], certainty: float) -> list[TuningRow]:
    """Candidates meet the incumbent, fastest first; the winner is the new incumbent."""
    medians = [statistics.median(t) for t in times]
    best, found = 0, [replace(r, measured_s=m) for r, m in zip(rows, medians)]
    for place in sorted(range(1, len(rows)), key=lambda i: medians[i]):
        p = p_faster(times[place], times[best])
        faster = medians[place] < medians[best]
        if faster and p < certainty:
            best, outcome = place, CandidateOutcome.CHOSEN
        else:
            outcome = CandidateOutcome.NOT_CERTAIN if faster else CandidateOutcome.SLOWER
        found[place] = replace(found[place], p=p, outcome=outcome)
    found[0] = replace(found[0], outcome=CandidateOutcome.INCUMBENT)
    found = [
        replace(r, outcome=CandidateOutcome.SLOWER)
        if r.outcome is CandidateOutcome.CHOSEN and i != best
        else r
        for i, r in enumerate(found)
    ]
    found[best] = replace(found[best], outcome=CandidateOutcome.CHOSEN)
    return found


def _winner(rows: list[TuningRow]) -> TuningRow:
    return next(r for r in rows if r.outcome is CandidateOutcome.CHOSEN)


def _kind(row: TuningRow) -> tuple[str, str]:
    return row.candidate.schedule, row.candidate.backend


def _diverse(ordered: list[TuningRow], keep: int) -> tuple[list[TuningRow], list[TuningRow]]:
    """The best few by prediction, the first setting of each (schedule, back end) before seconds."""
    seen: set[tuple[str, str]] = set()
    firsts: list[TuningRow] = []
    others: list[TuningRow] = []
    for row in ordered:
        (others if _kind(row) in seen else firsts).append(row)
        seen.add(_kind(row))
    ranked = [*firsts, *others]
    return ranked[:keep], ranked[keep:]


def _pruned(row: TuningRow, timed: list[TuningRow]) -> TuningRow:
    slowest = max((r.predicted_s or 0.0 for r in timed), default=0.0)
    reason = f"predicted no better than the {len(timed)} timed (up to {1e3 * slowest:.3f} ms)"
    return replace(row, outcome=CandidateOutcome.PRUNED, reason=reason)


def _everyone(yes: bool) -> bool:
    """True on every rank where it is true on every rank."""
    flag = torch.tensor([int(yes)], device=device())
    dist.all_reduce(flag, dist.ReduceOp.MIN)
    return bool(flag.item())
