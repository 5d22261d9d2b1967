"""What the loop tells the history: its recording, the job as it was measured beside the prediction
of it, and every plan that was tried."""

from collections.abc import Iterator
from dataclasses import replace

from paceline.history.entry import Entry
from paceline.history.told import Subject, recording_entry, trial_entry, verdict_entry
from paceline.predict import Prediction, predict
from paceline.strategies import Strategy
from paceline.trial import Decision, Outcome
from paceline.tune import Trial, Tuned
from paceline.verify import Measured, Verdict

_WORDS = {Decision.KEEP: "kept", Decision.INCONCLUSIVE: "inconclusive"}


def tuned_entries(tuned: Tuned) -> Iterator[Entry]:
    """In the order in which it happened."""
    recording = recording_entry(tuned.recorded.folder)
    if recording is not None:
        yield recording
    for number, trial in enumerate(tuned.trials):
        if number == 0 and trial.outcome.plain_steps_ns:
            yield _as_it_is(tuned, trial.outcome)
        yield _tried(tuned, trial)


def _as_it_is(tuned: Tuned, outcome: Outcome) -> Entry:
    """The plain blocks of the first trial, beside the prediction that changes nothing."""
    subject = _subject(tuned, ())
    return verdict_entry(
        subject, Verdict(_predicted(subject), Measured(outcome.plain_steps_ns, {}))
    )


def _tried(tuned: Tuned, trial: Trial) -> Entry:
    outcome = trial.outcome
    subject = _subject(tuned, outcome.plan)
    seen = Measured(outcome.plan_steps_ns, {}) if outcome.plan_steps_ns else None
    return trial_entry(subject, _predicted(subject), seen, said(outcome))


def said(outcome: Outcome) -> str:
    """Kept, inconclusive, failed or rejected, and why."""
    known = _WORDS.get(outcome.decision)
    word = known or ("failed" if outcome.finding.failed else "rejected")
    return f"{word}: {outcome.finding.value}, {outcome.cause}"


def _subject(tuned: Tuned, plan: tuple[Strategy, ...]) -> Subject:
    seen, where = tuned.recorded, tuned.where
    return Subject(seen.graph, seen.folder, plan, where.cluster, where.question)


def _predicted(subject: Subject) -> Prediction:
    """The loop's own prediction, with how far it leans on work and on communication."""
    asked = replace(subject.question, lean=True)
    return predict(subject.graph, subject.changes, subject.cluster, asked)
