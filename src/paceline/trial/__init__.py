"""A plan tried in the live job: blocks with and without it take turns, and a test decides."""

from paceline.trial.applied import AppliedRun, run_to_the_end
from paceline.trial.blocks import Side, Timetable
from paceline.trial.errors import TrialError
from paceline.trial.gradients import GradientRun, SeenGradients, gradients_of
from paceline.trial.losses import LossCheck
from paceline.trial.outcome import Decision, Finding, Outcome
from paceline.trial.places import Ending, Place, Ran, Watching, here, in_lab, logged
from paceline.trial.running import Patience, TrialRequest, Tried, can_take_turns, try_plan
from paceline.trial.significance import Gain, gain_of, steps_needed

__all__ = [
    "AppliedRun",
    "Decision",
    "Ending",
    "Finding",
    "Gain",
    "GradientRun",
    "LossCheck",
    "Outcome",
    "Patience",
    "Place",
    "Ran",
    "SeenGradients",
    "Side",
    "Timetable",
    "TrialError",
    "TrialRequest",
    "Tried",
    "Watching",
    "can_take_turns",
    "gain_of",
    "gradients_of",
    "here",
    "in_lab",
    "logged",
    "run_to_the_end",
    "steps_needed",
    "try_plan",
]
