"""What a price rests on, and how far it may be off."""

from dataclasses import dataclass
from enum import IntEnum


class Basis(IntEnum):
    """Where a duration comes from, the most trustworthy first."""

    RECORDED = 0  # seen on this very op
    MEASURED = 1  # read from a table measured on this kind of device or network
    FITTED = 2  # a model whose coefficients were fitted to measurements
    SCALED = 3  # seen on this op on another device, carried over by both datasheets (Habitat)
    DATASHEET = 4  # a model with the maker's figures and typical efficiency


SPREAD = {
    Basis.RECORDED: 0.03,
    Basis.MEASURED: 0.05,
    Basis.FITTED: 0.12,
    Basis.SCALED: 0.118,
    Basis.DATASHEET: 0.35,
}
"""Half-width of the interval as a share of the price, about 90 %. FITTED and DATASHEET are the
errors of this model on published Megatron-LM iteration times with and without calibration rows
(benchmarks/accuracy/megatron.py); MEASURED is interpolation between table rows
(benchmarks/accuracy/collectives.py, worst sizes); RECORDED is the p10 to p90 of quiet runs."""


@dataclass(frozen=True)
class Price:
    """A duration with its interval and what it rests on."""

    dur_ns: float
    low_ns: float
    high_ns: float
    basis: Basis
