"""Durations of recorded kernels on another device.

    t_d = s f_d + (t_o - s f_o) (p R_d / R_o + (1 - p) c_o / c_d)

f is the device's least time of a kernel, R how long the work takes at the rates that the device
achieves, c its clock, p how full the kernel keeps the recorded device, and s the kernel's share of
its call: kernels that one library launches for an operator and another fuses or splits are carried
over together, with the cost of one launch. A kernel whose work is not known has the ratio of what
decides in its family, arithmetic or memory. Caches are not looked at, nor which tiles the other
library picks. Blocks of attention are given by batch, heads and queries, not by the device: where
they are fewer than its processors, only that many of them work, at the rate of one each, so that

    (t_o - s f_o) R_d / R_o min(1, B / n_o) / min(1, B / n_d)

stands in place of the second term, with B blocks and n processors. Where both devices have a
forecast that is better (`shares`), it stands in place of all of this.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from paceline.cluster import Device
from paceline.cost.achieved import Achieved, achieved, rate_of
from paceline.cost.forecast import Constants
from paceline.cost.ported.kernels import Kernels
from paceline.cost.ported.roof import PRODUCTS, fill, roof_ns
from paceline.cost.ported.shares import share_factor
from paceline.graph.work import Family, Recorded, unknown

_NOTHING = Recorded("", unknown())


def ported_ns(
    kernels: Kernels, origin: Device, destination: Device, constants: Constants | None = None
) -> NDArray[np.float64]:
    """Durations on the destination of kernels recorded on the origin. `constants` are those of
    forecasts, where not the shipped ones."""
    rates = by_rates_ns(kernels, origin, destination)
    factor = share_factor(kernels, origin, destination, constants)
    return np.where(np.isnan(factor), rates, kernels.dur_ns * factor)


def by_rates_ns(kernels: Kernels, origin: Device, destination: Device) -> NDArray[np.float64]:
    """The same by what both devices achieve, whatever forecasts say."""
    here, there = _as_recorded(achieved(origin), kernels), achieved(destination)
    clock = origin.clock_hz / destination.clock_hz if destination.clock_hz else 1.0
    pair = _Pair(origin, destination, here, there, clock or 1.0)
    factors = np.array([_factor(each, pair) for each in (*kernels.works, _NOTHING)])
    factor = factors[kernels.work]
    if kernels.columns is not None:
        roofs = [kernels.columns.roof_ns(each) for each in (here, there)]
        told = (kernels.work < 0) & (roofs[0] > 0)
        factor = np.where(told, roofs[1] / np.where(told, roofs[0], 1.0), factor)
    fixed = np.minimum(kernels.share * here.least_ns, kernels.dur_ns)
    body = kernels.dur_ns - fixed
    return np.asarray(kernels.share * there.least_ns + body * factor, np.float64)


def _as_recorded(known: Achieved, kernels: Kernels) -> Achieved:
    """With the least time of a kernel that the recording itself shows, where that is less than the
    table's: the lower decile of kernels that have next to nothing to do."""
    roofs = np.array([*(roof_ns(each.work, known) for each in kernels.works), 0.0])
    whole = (kernels.share == 1) & (roofs[kernels.work] > 0)
    tiny = kernels.dur_ns[whole & (roofs[kernels.work] < _TINY * known.least_ns)]
    if len(tiny) < _SOME:
        return known
    return replace(known, least_ns=min(known.least_ns, float(np.quantile(tiny, _DECILE))))


_TINY = 0.2
"""Kernels whose work takes less than this part of the least time have next to nothing to do."""
_SOME = 5
_DECILE = 0.1


@dataclass(frozen=True)
class _Pair:
    """Two devices, what they achieve, and the ratio of their clocks."""

    origin: Device
    destination: Device
    here: Achieved
    there: Achieved
    clock: float


def _factor(recorded: Recorded, pair: _Pair) -> float:
    """How much longer the body of a kernel takes on the destination."""
    work, launch, here, there = recorded.work, recorded.launch, pair.here, pair.there
    full = fill(work.family, launch, pair.origin)
    if work.is_known:
        ratio = roof_ns(work, there) / roof_ns(work, here)
    elif work.family in PRODUCTS:
        ratio = rate_of(here, work.dtype) / rate_of(there, work.dtype)
    else:
        ratio = here.memory_bytes_per_s / there.memory_bytes_per_s
    if work.family is Family.ATTENTION:
        return ratio * full / fill(work.family, launch, pair.destination)
    return full * ratio + (1 - full) * pair.clock
