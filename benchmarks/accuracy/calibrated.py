"""This machine as `paceline measure --lab` sees it, kept for all predictions of a benchmark."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.measure import RESULTS
from paceline.cluster.machine import Machine
from paceline.lab import said
from paceline.measure import Calibration, load, measure, save

KEPT = RESULTS / "calibration.json"


def here(*, fresh: bool = False) -> Calibration:
    if fresh or not KEPT.exists():
        save(measure(in_lab=said), KEPT)
    return load(KEPT)


def machine(made: Calibration) -> Machine:
    """The cores that all workers of the lab share."""
    assert made.shared is not None, "measured in the lab"
    return made.shared.machine()
