"""The loop: record the job, search for a plan, try the best live, and keep it if it helps.

Two or three trials at most. A plan that brings nothing or makes the job slower is told and left,
and the next of the search's Pareto set is tried; then the search is made anew without what is to
blame (`doubted`). The job's script is run as it is, and ended when it has shown enough; what the
loop knows is written after each stage.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import ceil, floor, inf
from pathlib import Path

from paceline.predict import Prediction, predict
from paceline.search import Candidate, Ended, Found, Goal, search
from paceline.strategies import Plan, Strategy, brief, kind_of, known, made_for, save_plan
from paceline.strategies.plan import Predicted
from paceline.strategies.sends import sends_of
from paceline.trial import Decision, Patience, TrialRequest, Tried, steps_needed, try_plan
from paceline.trial.outcome import WORTHLESS
from paceline.tune.doubted import doubted
from paceline.tune.kept import keep_outcome
from paceline.tune.recorded import recorded
from paceline.tune.request import SEARCH_S, TuneRequest
from paceline.tune.tuned import Expected, Trial, Tuned
from paceline.tune.where import Where, as_recorded

PLAN = "plan.json"
LEAST_TRIAL_S = 20.0
Told = Callable[[str], None]
"""Is told what the loop does now."""


def tune(
    request: TuneRequest, environment: Mapping[str, str], told: Told = lambda _: None
) -> Tuned:
    """Run the whole loop. Interrupted, it ends what it started and keeps what it found."""
    end_s = time.monotonic() + request.budget_s
    (request.folder / PLAN).unlink(missing_ok=True)  # an earlier loop's
    told("recording the job")
    place, folder = request.place, request.folder / "recording"
    seen = recorded(request.command, folder, environment, place, request.budget_s, request.hang_s)
    where = request.where or as_recorded(seen.graph)
    so_far = Tuned(seen, where, predict(seen.graph, (), where.cluster, where.question))
    keep_outcome(so_far, request.folder)
    loop = _Loop(request, where, environment, end_s)
    try:
        for latest in loop.run(so_far, told):
            so_far = latest
            keep_outcome(so_far, request.folder)
    except KeyboardInterrupt:
        return _stopped(so_far, request)
    return so_far


def _stopped(so_far: Tuned, request: TuneRequest) -> Tuned:
    interrupted = replace(so_far, stopped="interrupted")
    keep_outcome(interrupted, request.folder)
    return interrupted


class _Loop:
    """Searches and live trials."""

    def __init__(
        self, request: TuneRequest, where: Where, environment: Mapping[str, str], end_s: float
    ) -> None:
        self._request, self._where = request, where
        self._environment, self._end_s = environment, end_s

    def run(self, so_far: Tuned, told: Told) -> Iterator[Tuned]:
        """What is known after each search and each trial. Behind plans that did not help, what is
        to blame is left out of a new search."""
        while True:
            told("searching for a plan")
            so_far = replace(so_far, found=self._searched(so_far))
            yield so_far
            if so_far.found is not None and so_far.found.ended is Ended.INTERRUPTED:
                raise KeyboardInterrupt
            before = len(so_far.trials)
            for latest in self._trials(so_far, told):
                so_far = latest
                yield so_far
            if len(so_far.trials) == before or not self._goes_on(so_far):
                return

    def _trials(self, so_far: Tuned, told: Told) -> Iterator[Tuned]:
        """The best of one search, until one is kept, cannot be told from chance, or fails."""
        for expected in self._worth_trying(so_far):
            if self._left_s < LEAST_TRIAL_S:
                yield replace(so_far, stopped="the budget is spent")
                return
            told(f"trying {words(expected.candidate)}")
            outcome = try_plan(
                self._trial(expected, so_far), self._environment, self._request.place
            )
            so_far = replace(so_far, trials=(*so_far.trials, Trial(expected, outcome)))
            if outcome.decision is Decision.KEEP:
                so_far = replace(so_far, kept=self._kept(expected, so_far))
            yield so_far
            if not self._goes_on(so_far) or outcome.finding.failed:
                return

    def _goes_on(self, so_far: Tuned) -> bool:
        """A plan that looks as if it helped and could not be told from chance ends the loop too."""
        last = so_far.trials[-1].outcome
        wavers = last.decision is Decision.INCONCLUSIVE
        behind = wavers and last.gain is not None and last.gain.times < 1
        more = len(so_far.trials) < self._request.trials
        return more and (last.decision is Decision.STAY or behind)

    def _searched(self, so_far: Tuned) -> Found:
        request, seen, goal = self._request, so_far.recorded, self._request.goal
        without = {*goal.without, *doubted(so_far.trials, partial(self._step_ns, so_far))}
        if not request.apart:
            without |= set(_not_in_turns(goal))
        limit_s = max(1.0, min(goal.budget_s, SEARCH_S, self._left_s))
        within = replace(goal, budget_s=limit_s, without=tuple(sorted(without)))
        where = self._where
        return search(seen.graph, where.cluster, where.question, within, request.searcher)

    @property
    def _left_s(self) -> float:
        return self._end_s - time.monotonic()

    def _worth_trying(self, so_far: Tuned) -> Iterator[Expected]:
        """The best plan, then others of the Pareto set, the fastest first."""
        assert so_far.found is not None, "searched before"
        best, rest = so_far.found.best, so_far.found.pareto
        ranked = [best, *sorted(rest, key=_time)]
        for candidate in {each.plan: each for each in ranked if each.plan}.values():
            longer = _longer(candidate, so_far.found.unchanged)
            if longer == inf:
                continue
            after = self._predicted(so_far, candidate.plan)
            expected = Expected(candidate, so_far.before, after, longer)
            if expected.times > 1 + WORTHLESS:
                yield expected

    def _predicted(self, so_far: Tuned, plan: Sequence[Strategy]) -> Prediction:
        graph = so_far.recorded.graph
        return predict(graph, plan, self._where.cluster, self._where.question)

    def _step_ns(self, so_far: Tuned, plan: Sequence[Strategy]) -> float:
        """For a recorded batch."""
        return self._predicted(so_far, plan).batch_ns

    def _trial(self, expected: Expected, so_far: Tuned) -> TrialRequest:
        """Half of the predicted gain is to be seen, in steps that vary twice as much as the few
        recorded ones show: few tell little of bursts."""
        seen, facts = so_far.recorded, expected.after.timeline.graph.facts
        needed = steps_needed((expected.times - 1) / 2, 2 * max(seen.deviation, 0.01))
        return TrialRequest(
            self._request.command,
            self._request.folder / f"trial-{len(so_far.trials) + 1}",
            Tried(expected.candidate.plan, expected.candidate.effect, facts.period, expected.worth),
            self._request.table(needed, facts.period),
            Patience(self._left_s, self._request.hang_s),
            seen.losses,
        )

    def _kept(self, expected: Expected, so_far: Tuned) -> Path:
        graph, plan = so_far.recorded.graph, expected.candidate.plan
        kept = Plan(
            plan,
            made_for(graph, plan, self._request.where.cluster if self._request.where else None),
            sends_of(expected.after.timeline.graph),
            as_measured(so_far.trials[-1]),
            expected.candidate.reasons,
        )
        file = self._request.folder / PLAN
        save_plan(kept, file)
        return file


def as_measured(trial: Trial) -> Predicted:
    """What was predicted, in times of the job as it ran in the trial: from there the plan is held
    against the job's own steps. The interval holds what was measured too."""
    expected, outcome, after = trial.expected, trial.outcome, trial.expected.after
    assert outcome.gain is not None, "kept plans were measured"
    here = outcome.baseline_ns / expected.before.batch_ns
    measured = [
        outcome.baseline_ns * expected.worth / (1 + gain)
        for gain in (outcome.gain.high, outcome.gain.low)
    ]
    return Predicted(
        round(after.step_ns * here),
        floor(min(after.low_ns * here, *measured)),
        ceil(max(after.high_ns * here, *measured)),
        after.batch_ns * here,
        outcome.baseline_ns,
        expected.candidate.memory_bytes,
    )


def _time(candidate: Candidate) -> float:
    """To the target where that is the goal, else for a recorded batch."""
    there = candidate.reached
    if there is None:
        return candidate.batch_ns
    return inf if there.seconds is None else there.seconds


def _longer(candidate: Candidate, unchanged: Candidate) -> float:
    """How many times as many samples the plan needs until the target; 1 for other goals."""
    if candidate.reached is None or unchanged.reached is None:
        return 1.0
    mine, before = candidate.reached.learned.batches, unchanged.reached.learned.batches
    if before is None:
        return 1.0
    return inf if mine is None else mine.middle / before.middle


def words(candidate: Candidate) -> str:
    return " + ".join(map(brief, candidate.plan)) or "nothing"


def _not_in_turns(goal: Goal) -> list[str]:
    """Strategies that need runs of their own; those that were named are wanted all the same."""
    return [n for n in known() if not kind_of(n).in_turns and n not in (goal.strategies or ())]
