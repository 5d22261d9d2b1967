"""What the loop found, as plain data, and in a file beside the recording: `outcome.json`."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from paceline.search import Candidate
from paceline.trial import Outcome
from paceline.tune.tuned import Expected, Trial, Tuned

OUTCOME = "outcome.json"


def keep_outcome(tuned: Tuned, folder: Path) -> None:
    """Written anew after each stage, so that an interrupt loses none."""
    part = folder / f"{OUTCOME}.part"
    part.write_text(json.dumps(tuned_data(tuned), indent=2, allow_nan=False) + "\n")
    part.replace(folder / OUTCOME)


def tuned_data(tuned: Tuned) -> dict[str, Any]:
    seen, found = tuned.recorded, tuned.found
    return {
        "decision": tuned.decision.value,
        "plan": str(tuned.kept) if tuned.kept else None,
        "stopped": tuned.stopped or None,
        "recorded": {
            "folder": str(seen.folder),
            "workers": seen.graph.world_size,
            "plain_steps_ns": list(seen.plain_ns),
            "deviation": seen.deviation,
            "by_class_ns": dict(tuned.before.by_class),
            "predicted_step_ns": tuned.before.step_ns,
        },
        "search": None
        if found is None
        else {
            "tried": found.tried,
            "seconds": found.seconds,
            "ended": found.ended.value,
            "best": _candidate(found.best),
            "unchanged": _candidate(found.unchanged),
            "pareto": [_candidate(each) for each in found.pareto],
        },
        "trials": [_trial(trial) for trial in tuned.trials],
    }


def _candidate(candidate: Candidate) -> dict[str, Any]:
    told = asdict(candidate)
    return {
        **told,
        "plan": [str(change) for change in candidate.plan],
        "effect": candidate.effect.value,
        "reasons": list(candidate.reasons),
    }


def _trial(trial: Trial) -> dict[str, Any]:
    return {"predicted": _expected(trial.expected), **_outcome(trial.outcome)}


def _expected(expected: Expected) -> dict[str, Any]:
    return {
        "times": expected.times,
        "low": expected.low,
        "high": expected.high,
        "step_ns": expected.after.step_ns,
        "reasons": list(expected.candidate.reasons),
        "rests_on": list(expected.after.rests_on),
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    return {
        "plan": [str(change) for change in outcome.plan],
        "finding": outcome.finding.value,
        "cause": outcome.cause,
        "decision": outcome.decision.value,
        "gain": asdict(outcome.gain) if outcome.gain else None,
        "baseline_ns": outcome.baseline_ns,
        "plan_ns": outcome.plan_ns,
        "steps": outcome.steps,
        "loss": asdict(outcome.loss) if outcome.loss else None,
    }
