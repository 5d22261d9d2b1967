"""This machine as `paceline measure --lab` sees it, kept for all predictions of a benchmark."""

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.measure import RESULTS
from paceline.cluster.machine import Machine
from paceline.lab import said
from paceline.learn.handling import handling
from paceline.machine import this_machine
from paceline.measure import Also, Calibration, load, measure, save
from paceline.strategies.torch_codec_times import codec_times

KEPT = RESULTS / "calibration.json"


def here(*, fresh: bool = False) -> Calibration:
    if fresh or not KEPT.exists():
        save(measure(also=Also(said, codec_times, handling=handling)), KEPT)
    made = load(KEPT)
    if doubt := made.doubt(this_machine()):
        print(f"{KEPT.name}: {doubt}", file=sys.stderr)
    return made


def handled() -> Calibration:
    """With what messages take of workers' processors, which older calibrations do not know."""
    made = here()
    if made.handling is None:
        made = replace(made, handling=handling())
        save(made, KEPT)
    return made


def machine(made: Calibration) -> Machine:
    """The cores that all workers of the lab share."""
    assert made.shared is not None, "measured in the lab"
    return made.shared.machine()
