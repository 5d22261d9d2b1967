"""`Row` and `Table`: a figure of a benchmark beside its target, and how figures are written."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One figure: where it comes from, what it must reach, and what others reach."""

    label: str
    benchmark: str
    field: str  # a dotted path into the result; a number is a place in a list
    target: float
    show: Callable[[float], str]
    peers: str = ""  # a figure of the same result as "{name:.0%}"
    at_least: bool = True  # else at most

    def met(self, value: float) -> bool:
        return value >= self.target if self.at_least else value <= self.target


@dataclass(frozen=True)
class Table:
    """Rows under a head, for one place of the README."""

    first_column: str
    rows: tuple[Row, ...]


def at_most(
    label: str,
    benchmark: str,
    field: str,
    target: float,
    show: Callable[[float], str],
    peers: str = "",
) -> Row:
    return Row(label, benchmark, field, target, show, peers, at_least=False)


def errors(label: str, benchmark: str, mean: float, worst: float, peers: str) -> tuple[Row, Row]:
    """The mean never stands without the worst."""
    return (
        at_most(f"{label}, mean", benchmark, "mean_error", mean, percent, peers),
        at_most(f"{label}, worst", benchmark, "worst_error", worst, percent),
    )


def per_second(value: float) -> str:
    return f"{value / 1e6:.3g} million/s" if value >= 1e6 else f"{value / 1e3:.3g} thousand/s"


def unit(unit: str) -> Callable[[float], str]:
    return lambda value: (f"{value:.0f}" if value >= 100 else f"{value:.3g}") + f" {unit}".rstrip()


def percent(value: float) -> str:
    return f"{100 * value:.3g} %"


MS, S, MB, TIMES = unit("ms"), unit("s"), unit("MB"), unit("times")
