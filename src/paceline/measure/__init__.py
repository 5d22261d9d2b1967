"""This machine -> `Calibration`: every constant of a prediction that is in no datasheet."""

from paceline.callable_room import callable_room
from paceline.measure.calibration import Calibration, Overlap, Sweep
from paceline.measure.codec_times import Adding, CodecTimes, OpTimes, pays_below
from paceline.measure.constant import Constant
from paceline.measure.errors import MeasureError
from paceline.measure.files import load, save
from paceline.measure.handling import Handling
from paceline.measure.in_lab import InLab
from paceline.measure.measuring import Also, ForJob, measure
from paceline.measure.shared_cores import SharedCores
from paceline.measure.sharing import shared_cores
from paceline.measure.speeds import Speeds
from paceline.measure.summary import summary

__all__ = [
    "Adding",
    "Also",
    "Calibration",
    "CodecTimes",
    "Constant",
    "ForJob",
    "Handling",
    "InLab",
    "MeasureError",
    "OpTimes",
    "Overlap",
    "SharedCores",
    "Speeds",
    "Sweep",
    "load",
    "measure",
    "pays_below",
    "save",
    "shared_cores",
    "summary",
]

callable_room(__name__)
