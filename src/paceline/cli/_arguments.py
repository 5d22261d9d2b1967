"""Arguments that several commands share. Not a command: its name begins with an underscore."""

import argparse
import logging
import math
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paceline.cost.forecast import Constants
    from paceline.measure import Calibration


def add_graph(parser: argparse.ArgumentParser, name: str = "graph") -> None:
    parser.add_argument(name, metavar=name.upper(), help="graph or run folder, or Chakra traces")


def count(text: str) -> int:
    """A whole number of at least 1."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return value


def positive(text: str) -> float:
    """A number above 0."""
    value = _number(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def not_negative(text: str) -> float:
    """A number of at least 0."""
    value = _number(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 0")
    return value


def _number(text: str) -> float:
    """Not a number where it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def add_constants(parser: "argparse.ArgumentParser | argparse._ArgumentGroup") -> None:
    parser.add_argument("--constants", type=Path, metavar="FILE",
                        help="forecast kernels by what `paceline fit` wrote; what it lacks goes by "
                        "the constants that come with Paceline")  # fmt: skip


def calibration_of(options: argparse.Namespace, here: str) -> "Calibration | None":
    """That of --calibration, with a warning where it is of another machine than `here`."""
    from paceline.measure import load

    made = load(options.calibration) if options.calibration else None
    if made is not None and (doubt := made.doubt(here)):
        logging.getLogger(__name__).warning("%s: %s", options.calibration, doubt)
    return made


def constants_of(options: argparse.Namespace) -> "Constants | None":
    """Those of --constants, laid over the shipped ones."""
    from paceline.cost.forecast import load, shipped

    return load(options.constants).over(shipped()) if options.constants else None
