"""Fitting: a line of latency and bandwidth through measured sizes, and a model's coefficients.

Both minimise relative errors, so that small and large sizes count alike, and damp outliers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.cost.errors import CostError
from paceline.cost.student import t90

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class FittedLine:
    """time = latency_ns + bytes / bytes_per_s, each with the half-width of its 90 % interval."""

    latency_ns: float
    latency_half_ns: float
    bytes_per_s: float
    bytes_per_s_half: float
    residual: float  # mean relative error of the points

    def at(self, size_bytes: float) -> float:
        return self.latency_ns + size_bytes / self.bytes_per_s * 1e9


def fit_line(sizes: Sequence[float], times_ns: Sequence[float]) -> FittedLine:
    """The line through three measurements or more."""
    size, time = np.asarray(sizes, np.float64), np.asarray(times_ns, np.float64)
    if len(set(sizes)) < 3:
        raise CostError(f"a line with its confidence needs 3 sizes; given are {len(set(sizes))}")
    rows = np.stack([1 / time, size / time], axis=1)
    found, *_ = np.linalg.lstsq(rows, np.ones(len(time)), rcond=None)
    if found[1] <= 0:
        raise CostError("times do not grow with size; measure larger sizes")
    left = rows @ found - 1
    freedom = len(time) - 2
    spread = np.sqrt(np.diag(np.linalg.inv(rows.T @ rows)) * (left @ left) / freedom)
    half = spread * t90(freedom)
    return FittedLine(
        float(found[0]),
        float(half[0]),
        1e9 / float(found[1]),
        1e9 / float(found[1]) * float(half[1] / found[1]),
        float(np.abs(left).mean()),
    )


@dataclass(frozen=True)
class Coefficient:
    """A positive unknown: what it is likely to be, how far off (a factor of e^width), its cap."""

    name: str
    typical: float
    width: float
    most: float = np.inf


def fit_coefficients(
    coefficients: Sequence[Coefficient],
    predict: Callable[[dict[str, float]], Vector],
    measured: Vector,
    noise: float = 0.05,
    rounds: int = 15,
) -> dict[str, float]:
    """The most likely coefficients, given few measurements and what is typical of each.

    Minimises sum of rho(log(predicted / measured) / noise) + sum of (log(c / typical) / width)^2
    by damped Gauss-Newton steps; rho is the pseudo-Huber loss, so that one odd row cannot rule.
    """

    def values(logs: Vector) -> dict[str, float]:
        return {c.name: min(float(np.exp(x)), c.most) for c, x in zip(coefficients, logs)}

    def errors(logs: Vector) -> Vector:
        fit = np.log(predict(values(logs)) / measured) / noise
        return np.concatenate([_damped(fit), (logs - start) / widths])

    start = np.log([c.typical for c in coefficients])
    widths = np.array([c.width for c in coefficients])
    logs, damping = start.copy(), 1e-2
    now = errors(logs)
    for _ in range(rounds):
        slope = _slopes(errors, logs, now)
        step = np.linalg.solve(slope.T @ slope + damping * np.eye(len(logs)), -slope.T @ now)
        tried = errors(logs + step)
        if tried @ tried < now @ now:
            gain = 1 - (tried @ tried) / (now @ now)
            logs, now, damping = logs + step, tried, damping / 3
            if gain < 1e-3:
                break
        else:
            damping *= 10
    return values(logs)


def _slopes(errors: Callable[[Vector], Vector], logs: Vector, now: Vector) -> Vector:
    moved = 0.02 * np.eye(len(logs))
    return np.stack([(errors(logs + m) - now) / 0.02 for m in moved], axis=1)


def _damped(errors: Vector) -> Vector:
    """Square root of the pseudo-Huber loss, with the error's sign."""
    return np.asarray(np.sign(errors) * np.sqrt(2 * (np.sqrt(1 + errors**2) - 1)), np.float64)
