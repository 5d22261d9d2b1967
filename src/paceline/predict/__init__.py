"""How long a step takes after changes, on a cluster: one prediction for every kind of question."""

from paceline.callable_room import callable_room
from paceline.predict.candidates import Candidates
from paceline.predict.classes import WORK_CLASSES, by_class
from paceline.predict.correction import Correction, Leaning
from paceline.predict.errors import PredictError
from paceline.predict.memory import Fit, PeakMemory
from paceline.predict.predicting import predict
from paceline.predict.prediction import Prediction, Question

__all__ = [
    "WORK_CLASSES",
    "Candidates",
    "Correction",
    "Fit",
    "Leaning",
    "PeakMemory",
    "PredictError",
    "Prediction",
    "Question",
    "by_class",
    "predict",
]

callable_room(__name__)
