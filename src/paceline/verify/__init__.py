"""Predicted against measured."""

from paceline.verify.prediction import (
    Prediction,
    SharedMachine,
    VerifyError,
    by_class,
    predict,
    predict_in_place,
    tcp_share,
)
from paceline.verify.proof import Proof, prove, recorded_command
from paceline.verify.verdict import Difference, Measured, Verdict, measured_run

__all__ = [
    "Difference",
    "Measured",
    "Prediction",
    "Proof",
    "SharedMachine",
    "Verdict",
    "VerifyError",
    "by_class",
    "measured_run",
    "predict",
    "predict_in_place",
    "prove",
    "recorded_command",
    "tcp_share",
]
