"""How far predictions of each strategy were off where it was measured, kept with the package.

`measured.json` is written by `benchmarks/tables.py` from the newest accuracy results: jobs recorded
once and then run in the lab under each strategy, on other links and with other numbers of workers.
"""

from functools import cache
from pathlib import Path

import msgspec


class Accuracy(msgspec.Struct, frozen=True):
    """Errors of predicted steps, as shares of the measured ones, without sign."""

    rows: int  # settings in which the strategy stood alone in its plan
    mean_error: float
    worst_error: float


class _Kept(msgspec.Struct, frozen=True):
    date: str
    strategies: dict[str, Accuracy]


def accuracy_of(name: str) -> Accuracy | None:
    """None where the strategy was not measured yet."""
    return _kept().strategies.get(name)


@cache
def _kept() -> _Kept:
    return msgspec.json.decode(Path(__file__).with_name("measured.json").read_bytes(), type=_Kept)
