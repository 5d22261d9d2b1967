"""What was recorded, predicted, tried and measured, kept in one file, and what it teaches.

history.keep(history.verdict_entry(subject, verdict))
question = replace(question, correction=history.correction_for(subject, workers))
"""

from paceline.history.compared import Errors, by_strategy
from paceline.history.correcting import correction_for, predict_knowing
from paceline.history.entry import Entry, Ground, JobTraits, Kind, Measured, Predicted
from paceline.history.errors import HistoryError
from paceline.history.keeping import keep, opened
from paceline.history.learning import CorrectionRequest, Lesson, correction, lessons
from paceline.history.place import place
from paceline.history.store import History
from paceline.history.told import (
    Subject,
    host_machine_of,
    prediction_entry,
    recording_entry,
    trial_entry,
    verdict_entry,
)
from paceline.history.tuned import tuned_entries
from paceline.history.wanted import Wanted

__all__ = [
    "CorrectionRequest",
    "Entry",
    "Errors",
    "Ground",
    "History",
    "HistoryError",
    "JobTraits",
    "Kind",
    "Lesson",
    "Measured",
    "Predicted",
    "Subject",
    "Wanted",
    "by_strategy",
    "correction",
    "correction_for",
    "host_machine_of",
    "keep",
    "lessons",
    "opened",
    "place",
    "predict_knowing",
    "prediction_entry",
    "recording_entry",
    "trial_entry",
    "tuned_entries",
    "verdict_entry",
]
