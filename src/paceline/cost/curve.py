"""`Curve`: measured times over sizes, with what lies between found by straight lines.

Below the first size the time is that of the first (latency); above the last one the last line goes
on (bandwidth).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.errors import PacelineError


class CurveError(PacelineError):
    """Measurements from which no curve can be drawn."""


@dataclass(frozen=True)
class Curve:
    """Points of a measured table, sizes ascending."""

    sizes: tuple[float, ...]
    times_ns: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.sizes) < 2 or len(self.sizes) != len(self.times_ns):
            raise CurveError(
                f"a curve needs two sizes or more and a time for each; given are "
                f"{len(self.sizes)} sizes and {len(self.times_ns)} times"
            )
        if any(b <= a for a, b in zip(self.sizes, self.sizes[1:])) or min(self.times_ns) <= 0:
            raise CurveError("a curve needs ascending sizes and times above zero")

    @staticmethod
    def through(sizes: Sequence[float], times_ns: Sequence[float]) -> "Curve":
        """The curve through measurements in any order."""
        pairs = sorted(zip(sizes, times_ns))
        return Curve(tuple(float(s) for s, _ in pairs), tuple(float(t) for _, t in pairs))

    def at(self, sizes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Times in ns at any sizes."""
        known, times = np.array(self.sizes), np.array(self.times_ns)
        slope = max(0.0, (times[-1] - times[-2]) / (known[-1] - known[-2]))
        beyond = times[-1] + slope * (sizes - known[-1])
        within = np.interp(sizes, known, times)
        return np.asarray(np.where(sizes > known[-1], beyond, within), np.float64)


def ten_sizes(sizes: Sequence[float], count: int = 10) -> list[int]:
    """Indices of sizes in a geometric row from the first to the last: where to measure."""
    wanted = np.geomspace(sizes[0], sizes[-1], count)
    chosen = {int(np.argmin(np.abs(np.log(np.asarray(sizes) / want)))) for want in wanted}
    return sorted(chosen)
