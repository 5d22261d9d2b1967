"""This machine as `paceline measure --lab` sees it, kept for all predictions of a benchmark.

Each kind of machine has a file of its own in `results/calibrations`."""

import re
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import measure
from paceline.cluster.machine import Machine
from paceline.lab import said
from paceline.learn.handling import handling
from paceline.machine import moved_between, take_pulse, typical_pulse
from paceline.measure import Also, Calibration, load, save
from paceline.measure import measure as measured
from paceline.strategies.torch_codec_times import codec_times
from paceline.strategies.torch_crowded_codecs import crowded_codec_times

ALSO = Also(said, codec_times, partial(crowded_codec_times, said), handling=handling)


def here(*, fresh: bool = False) -> Calibration:
    return kept_in(_file(), fresh=fresh)


def kept_in(file: Path, *, fresh: bool = False) -> Calibration:
    """Of a benchmark whose recordings have a calibration of their own."""
    if fresh or not file.exists():
        file.parent.mkdir(exist_ok=True)
        save(measured(also=ALSO), file)
    return load(file)


def now() -> Calibration:
    """This machine as it runs now, for what is measured live: kept apart from the one by which kept
    rows are predicted, and measured anew where the pulse has moved since. Machines of one name run
    at half and at twice each other's speed."""
    file = _file().with_name(f"{_file().stem}-now.json")
    kept = load(file) if file.exists() else None
    if kept is None or _has_moved(kept):
        kept = kept_in(file, fresh=True)
    return kept


def _has_moved(made: Calibration) -> bool:
    since = moved_between(made.pulse, typical_pulse([take_pulse() for _ in range(9)]))
    return since is None or abs(since.arithmetic) > MOVED or abs(since.memory) > 2 * MOVED


MOVED = 0.1


def _file() -> Path:
    told = measure.machine()
    name = re.sub(r"[^a-z0-9]+", "-", f"{told['cpu']} {told['cores']} cores".lower())
    return measure.RESULTS / "calibrations" / f"{name}.json"


def machine(made: Calibration) -> Machine:
    """The cores that all workers of the lab share."""
    assert made.shared is not None, "measured in the lab"
    return made.shared.machine()
