"""What the loop did, in six lines; and one for each plan that was tried and not kept."""

from collections.abc import Iterator

from paceline.predict import WORK_CLASSES
from paceline.report.text.prediction import label
from paceline.report.text.quantities import duration, share, size
from paceline.strategies import brief
from paceline.trial import Decision
from paceline.tune import Expected, Trial, Tuned

_DONE = {
    Decision.STAY: "keep what you have",
    Decision.INCONCLUSIVE: "keep what you have",
}


def tuned_lines(tuned: Tuned) -> Iterator[str]:
    """Title and text of each line."""
    yield from (f"{title:<12}{text}" for title, text in _lines(tuned))


def _lines(tuned: Tuned) -> Iterator[tuple[str, str]]:
    yield "recorded", _recorded(tuned)
    yield "bottleneck", _bottleneck(tuned)
    *earlier, last = tuned.trials or (None,)
    for trial in earlier:
        if trial is not None:
            yield "tried", f"{_plan(trial.expected)}: {_finding(trial)}"
    yield "plan", _chosen(tuned, last)
    yield "predicted", _predicted(tuned, last)
    yield "measured", _measured(last)
    yield "verdict", _verdict(tuned, last)


def _recorded(tuned: Tuned) -> str:
    seen = tuned.recorded
    step = sorted(seen.plain_ns)[len(seen.plain_ns) // 2] if seen.plain_ns else tuned.before.step_ns
    return (
        f"a step of {duration(step)} on {seen.graph.world_size} workers, which varies by "
        f"{seen.deviation:.1%} ({len(seen.plain_ns)} steps without instruments)"
    )


def _bottleneck(tuned: Tuned) -> str:
    parts = {name: tuned.before.by_class.get(name, 0) for name in (*WORK_CLASSES, "exposed")}
    ranked = sorted((ns, name) for name, ns in parts.items() if ns)[::-1][:3]
    whole = sum(parts.values())
    return ", ".join(f"{label(name)} {share(ns, whole)}" for ns, name in ranked)


def _chosen(tuned: Tuned, last: Trial | None) -> str:
    if last is None:
        tried = f" ({tuned.found.tried:,} plans tried by replay)" if tuned.found else ""
        return f"none is predicted to help{tried}"
    candidate = last.expected.candidate
    whole = {f"{change}: ": f"{brief(change)}: " for change in candidate.plan}
    reasons = "; ".join(candidate.reasons)
    for long, short in whole.items():
        reasons = reasons.replace(long, short if len(whole) > 1 else "")
    return _plan(last.expected) + (f": {reasons}" if reasons else "")


def _plan(expected: Expected) -> str:
    return " + ".join(map(brief, expected.candidate.plan))


def _predicted(tuned: Tuned, last: Trial | None) -> str:
    if last is None:
        return f"a step of {duration(tuned.before.step_ns)} as it is"
    one = last.expected
    memory = one.candidate.memory_bytes
    held = f", a rank holds {size(memory)} at most" if memory else ""
    return (
        f"{one.times:.2f} times as {_word(one)} ({one.low:.2f} to {one.high:.2f}): "
        f"{duration(one.after.batch_ns)} for a recorded batch{held}"
    )


def _word(expected: Expected) -> str:
    """Gains of a goal of time to an accuracy count the samples until then too."""
    return "fast" if expected.candidate.reached is None else "soon at the target"


def _measured(last: Trial | None) -> str:
    if last is None:
        return "nothing: there was no plan to try"
    gain = last.outcome.gain
    if gain is None:
        return f"nothing that counts: {last.outcome.cause}"
    return (
        f"{gain.times:.2f} times as {_word(last.expected)} "
        f"({1 + gain.low:.2f} to {1 + gain.high:.2f}) over "
        f"{last.outcome.steps} steps of each side in {gain.rounds} rounds; the job differs from "
        f"itself by up to {gain.floor:.1%}"
    )


def _verdict(tuned: Tuned, last: Trial | None) -> str:
    stopped = f" ({tuned.stopped})" if tuned.stopped else ""
    if tuned.kept is not None:
        loss = last.outcome.loss if last is not None else None
        held = f"; {loss.said}" if loss is not None else ""
        return f"kept{stopped}: {tuned.kept}, for `paceline apply {tuned.kept} -- ...`{held}"
    why = f": {_finding(last)}" if last is not None else ""
    return f"{_DONE[tuned.decision]}{stopped}{why}; the job is left as it was"


def _finding(trial: Trial) -> str:
    return f"{trial.outcome.finding.value}, {trial.outcome.cause}"
