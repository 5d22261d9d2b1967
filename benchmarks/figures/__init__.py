"""What the README's tables hold: which figure of which benchmark, its target, and its peers'.

A row's figure is read from the newest full result; `tables.py` writes it. To show another figure,
add a row; to show a table, put its markers into the README. Peers' figures were measured on the
same kind of machine, or are the ones that they published.
"""

from collections.abc import Mapping

from benchmarks.figures.accuracy import ACCURACY, COMPARED, INPUT, NOISE, OVERHEAD
from benchmarks.figures.learning import CLIENTS, LEARNING, SUITE
from benchmarks.figures.machines import GPUS, SERVING, WIRE
from benchmarks.figures.product import LOOP, PAGE
from benchmarks.figures.row import Row, Table
from benchmarks.figures.speed import SPEED, WORK

TABLES: Mapping[str, Table] = {
    "gpus": GPUS,
    "input": INPUT,
    "loop": LOOP,
    "page": PAGE,
    "compared": COMPARED,
    "speed": SPEED,
    "work": WORK,
    "accuracy": ACCURACY,
    "learning": LEARNING,
    "suite": SUITE,
    "clients": CLIENTS,
    "overhead": OVERHEAD,
    "noise": NOISE,
    "wire": WIRE,
    "serving": SERVING,
}

__all__ = ["TABLES", "Row", "Table"]
