"""Predictions that start from what this user's history teaches."""

import logging
from dataclasses import replace

from paceline.history.errors import HistoryError
from paceline.history.keeping import opened
from paceline.history.learning import CorrectionRequest, correction, lessons
from paceline.history.store import History
from paceline.history.told import Subject
from paceline.history.wanted import Wanted
from paceline.predict import Correction, Prediction, predict


def predict_knowing(subject: Subject, history: History | None = None) -> Prediction:
    """The prediction with the correction that earlier runs of the job taught, where one holds."""
    history = history or opened()
    asked = replace(subject.question, lean=history is not None)
    found = predict(subject.graph, subject.changes, subject.cluster, asked)
    by = correction_for(subject, found.workers, history) if history else None
    if by is None:
        return found
    asked = replace(asked, correction=by)
    return predict(subject.graph, subject.changes, subject.cluster, asked)


def correction_for(subject: Subject, workers: int, history: History) -> Correction | None:
    """None where the history has nothing that holds. One that cannot be read is said, and nothing
    is corrected."""
    job = subject.job(workers)
    if not job.model:
        return None
    try:
        past = history.entries(Wanted(machine=job.machine))
    except HistoryError as error:
        logging.getLogger(__name__).warning("%s. Nothing is corrected by it", error)
        return None
    return correction(lessons(past), CorrectionRequest.of(job, subject.ground, subject.strategies))
