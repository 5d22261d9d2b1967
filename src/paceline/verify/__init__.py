"""Predicted against measured."""

from paceline.verify.errors import VerifyError
from paceline.verify.proof import Proof, prove, recorded_command, recorded_in_lab
from paceline.verify.verdict import Difference, Measured, Verdict, measured_run

__all__ = [
    "Difference",
    "Measured",
    "Proof",
    "Verdict",
    "VerifyError",
    "measured_run",
    "prove",
    "recorded_command",
    "recorded_in_lab",
]
