"""This machine -> `Calibration`: every constant of a prediction that is in no datasheet."""

from paceline.callable_room import callable_room
from paceline.measure.calibration import Calibration, Overlap, Sweep
from paceline.measure.constant import Constant
from paceline.measure.errors import MeasureError
from paceline.measure.files import load, save
from paceline.measure.measuring import ForJob, measure
from paceline.measure.shared_cores import SharedCores
from paceline.measure.sharing import InLab, shared_cores
from paceline.measure.summary import summary

__all__ = [
    "Calibration",
    "Constant",
    "ForJob",
    "InLab",
    "MeasureError",
    "Overlap",
    "SharedCores",
    "Sweep",
    "load",
    "measure",
    "save",
    "shared_cores",
    "summary",
]

callable_room(__name__)
