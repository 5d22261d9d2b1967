"""The loop: record the job, search for a plan, try the best live, and keep it if it helps.

Two or three trials at most. A plan that fails, brings nothing or makes the job slower is told and
left; the next of the search's Pareto set is tried. The job's script is run as it is, and ended
when it has shown enough; what the loop knows is written after each stage.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from paceline.predict import Prediction, predict
from paceline.search import Candidate, Ended, Found, Goal, search
from paceline.strategies import Plan, kind_of, known, made_for, save_plan
from paceline.strategies.plan import Predicted
from paceline.strategies.sends import sends_of
from paceline.trial import Decision, Finding, Patience, TrialRequest, Tried, steps_needed, try_plan
from paceline.trial.outcome import WORTHLESS
from paceline.tune.kept import keep_outcome
from paceline.tune.recorded import Recorded, recorded
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
    told("recording the job")
    place, folder = request.place, request.folder / "recording"
    seen = recorded(request.command, folder, environment, place, request.budget_s, request.hang_s)
    where = request.where or as_recorded(seen.graph)
    so_far = Tuned(seen, predict(seen.graph, (), where.cluster, where.question))
    keep_outcome(so_far, request.folder)
    told("searching for a plan")
    so_far = replace(so_far, found=_searched(request, seen, where))
    keep_outcome(so_far, request.folder)
    if so_far.found is not None and so_far.found.ended is Ended.INTERRUPTED:
        return _stopped(so_far, request)
    try:
        for known in _Loop(request, where, environment, end_s).trials(so_far, told):
            so_far = known
            keep_outcome(so_far, request.folder)
    except KeyboardInterrupt:
        return _stopped(so_far, request)
    return so_far


def _stopped(so_far: Tuned, request: TuneRequest) -> Tuned:
    interrupted = replace(so_far, stopped="interrupted")
    keep_outcome(interrupted, request.folder)
    return interrupted


def _searched(request: TuneRequest, seen: Recorded, where: Where) -> Found:
    goal = request.goal
    without = goal.without if request.apart else (*goal.without, *_not_in_turns(goal))
    limit_s = min(goal.budget_s, SEARCH_S, request.budget_s)
    within = replace(goal, budget_s=limit_s, without=without)
    return search(seen.graph, where.cluster, where.question, within, request.searcher)


def _not_in_turns(goal: Goal) -> list[str]:
    """Strategies that need runs of their own; those that were named are wanted all the same."""
    return [n for n in known() if not kind_of(n).in_turns and n not in (goal.strategies or ())]


class _Loop:
    """The live trials."""

    def __init__(
        self, request: TuneRequest, where: Where, environment: Mapping[str, str], end_s: float
    ) -> None:
        self._request, self._where = request, where
        self._environment, self._end_s = environment, end_s

    def trials(self, so_far: Tuned, told: Told) -> Iterator[Tuned]:
        """What is known after each trial."""
        for expected in self._worth_trying(so_far):
            if len(so_far.trials) == self._request.trials or _is_done(so_far):
                return
            if _rests_on_a_failure(expected.candidate, so_far):
                continue
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

    @property
    def _left_s(self) -> float:
        return self._end_s - time.monotonic()

    def _worth_trying(self, so_far: Tuned) -> Iterator[Expected]:
        """The best plan, then others of the Pareto set, the fastest first."""
        assert so_far.found is not None, "searched before"
        best, rest = so_far.found.best, so_far.found.pareto
        ranked = [best, *sorted(rest, key=lambda each: each.batch_ns)]
        for candidate in {each.plan: each for each in ranked if each.plan}.values():
            expected = Expected(candidate, so_far.before, self._predicted(so_far, candidate))
            if expected.times > 1 + WORTHLESS:
                yield expected

    def _predicted(self, so_far: Tuned, candidate: Candidate) -> Prediction:
        graph = so_far.recorded.graph
        return predict(graph, candidate.plan, self._where.cluster, self._where.question)

    def _trial(self, expected: Expected, so_far: Tuned) -> TrialRequest:
        """Half of the predicted gain is to be seen, in steps that vary twice as much as the few
        recorded ones show: few tell little of bursts."""
        seen, facts = so_far.recorded, expected.after.timeline.graph.facts
        needed = steps_needed((expected.times - 1) / 2, 2 * max(seen.deviation, 0.01))
        return TrialRequest(
            self._request.command,
            self._request.folder / f"trial-{len(so_far.trials) + 1}",
            Tried(expected.candidate.plan, expected.candidate.effect, facts.period, facts.samples),
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
        outcome.baseline_ns * after.samples / (1 + gain)
        for gain in (outcome.gain.high, outcome.gain.low)
    ]
    return Predicted(
        round(after.step_ns * here),
        round(min(after.low_ns * here, *measured)),
        round(max(after.high_ns * here, *measured)),
        after.batch_ns * here,
        outcome.baseline_ns,
        expected.candidate.memory_bytes,
    )


def words(candidate: Candidate) -> str:
    return " + ".join(map(str, candidate.plan)) or "nothing"


def _is_done(so_far: Tuned) -> bool:
    """A plan is kept, or one that may help could not be told from chance."""
    last = so_far.trials[-1].outcome.decision if so_far.trials else Decision.STAY
    return last is not Decision.STAY


def _rests_on_a_failure(candidate: Candidate, so_far: Tuned) -> bool:
    """Whether it holds all of a plan with which the job failed."""
    return any(
        set(trial.outcome.plan) <= set(candidate.plan)
        for trial in so_far.trials
        if trial.outcome.finding.failed and trial.outcome.finding is not Finding.NO_STEPS
    )
