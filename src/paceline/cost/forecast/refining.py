"""Forecasts corrected on a device by what was measured on that very device.

    constants = refined(shipped(), samples(folder))

A minute of measurements is too little to fit constants to, and enough to say by how much longer
than forecast a device's kernels take: by kind of operators, and by how long they were forecast to
take, since what is off for small kernels is the least time, and for large ones the rate. No other
device's forecasts change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

import numpy as np

from paceline.cost.errors import CostError
from paceline.cost.forecast.fitting import Sample
from paceline.cost.forecast.learned import Constants, Refinement, save, shipped
from paceline.cost.forecast.sampled_works import WORKS, works_in
from paceline.cost.forecast.works import forecast

_BINS: Final = 4
_LEAST: Final = 4  # rows of a bin


@dataclass(frozen=True)
class Refined:
    """One kind of operators on one device: mean errors on rows, each forecast without itself."""

    device: str
    key: str
    rows: int
    before: float
    after: float


def refined(
    constants: Constants, measured: Mapping[str, Sequence[Sample]]
) -> tuple[Constants, tuple[Refined, ...]]:
    """The constants with what these measurements teach of their devices, and what it brought."""
    unknown = [key for key in measured if key.split(".")[0] not in WORKS]
    if unknown:
        raise CostError(
            f"{unknown[0]} cannot be refined; known are {', '.join(WORKS)}. Leave that table away, "
            "or fit whole constants with `paceline fit`"
        )
    plain = replace(constants, refined={})
    made, told = dict(constants.refined), []
    for key, samples in measured.items():
        for sample in samples:
            one, row = _refinement(key, sample, plain)
            made[sample.device] = {**made.get(sample.device, {}), key: one}
            told.append(row)
    return replace(constants, refined=made), tuple(told)


def refine_shipped(
    measured: Mapping[str, Sequence[Sample]],
    source: str,
    path: Path,
    call_ns: Mapping[str, float] | None = None,
) -> tuple[Refined, ...]:
    """Keep in a file what these measurements teach beyond the constants that come with Paceline.
    `call_ns`: what hosts were measured to spend on a call, by the device beside them."""
    made, told = refined(shipped(), measured)
    today = datetime.now(timezone.utc).date().isoformat()
    kept = replace(made, learned={}, source=source, date=today, call_ns=call_ns or {})
    save(kept, path)
    return told


def _refinement(key: str, sample: Sample, plain: Constants) -> tuple[Refinement, Refined]:
    told_ns = forecast(works_in(key, sample), sample.question.sheet, plain).dur_ns
    told_ns = told_ns.astype(np.float64)
    off = np.log(sample.seconds.astype(np.float64) * 1e9 / told_ns)
    order = np.argsort(told_ns, kind="stable")
    told_ns, off = told_ns[order], off[order]
    left = np.array([_without(told_ns, off, at) for at in range(len(off))])
    after = float(np.abs(np.exp(left) - 1).mean())
    before = float(np.abs(np.exp(-off) - 1).mean())
    row = Refined(sample.device, key, len(off), before, after)
    return replace(_fitted(told_ns, off), spread=after, rows=len(off)), row


def _without(told_ns: np.ndarray, off: np.ndarray, at: int) -> float:
    """The logarithm of forecast over measured of one row, refined by all others."""
    if len(off) == 1:
        return float(-off[0])
    others = _fitted(np.delete(told_ns, at), np.delete(off, at))
    return float(np.log(others.factors_at(told_ns[at : at + 1])[0]) - off[at])


def _fitted(told_ns: np.ndarray, off: np.ndarray) -> Refinement:
    """The median of bins of rows that were forecast to take alike; rows come in that order."""
    bins = max(1, min(_BINS, len(off) // _LEAST))
    parts = np.array_split(np.arange(len(off)), bins)
    return Refinement(
        tuple(float(np.exp(np.log(told_ns[part]).mean())) for part in parts),
        tuple(float(np.exp(np.median(off[part]))) for part in parts),
    )
