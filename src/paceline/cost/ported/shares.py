"""Recorded kernels keep their own share of what was forecast for them.

    t_d = t_o F_d / F_o

F is the forecast of the kernel's operator on a device. It knows tiles, waves and caches, which
rates do not; what it is off by for a shape is the same on both devices for the most part, and falls
out. It takes the place of rates for the families that came out nearer by it on devices of which
nothing was measured (benchmarks/accuracy/kernel_pairs.py), and where the forecast describes the
kernel that was recorded: one that is over `NEAR` times as long or as short is another kernel.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from paceline.cluster import Device
from paceline.cost.forecast import Both, Constants, forecast_both, sheet_of
from paceline.cost.ported.kernels import Kernels
from paceline.graph import DeviceKind
from paceline.graph.work import Family, Recorded, unknown

BY_FORECAST: Final = frozenset({Family.MATRIX, Family.ATTENTION, Family.BATCH_NORM})
NEAR: Final = 2.0
_LEAST_SHARE: Final = 1e-9


def share_factor(
    kernels: Kernels, origin: Device, destination: Device, constants: Constants | None = None
) -> NDArray[np.float64]:
    """How many times as long each kernel takes there; NaN where no forecast tells."""
    both = forecasts_of(kernels.works, origin, destination, constants)
    here, there = (np.append(each, np.nan)[kernels.work] for each in (both.here_ns, both.there_ns))
    whole = np.full(len(here), np.inf)
    np.divide(kernels.dur_ns, kernels.share, out=whole, where=kernels.share > _LEAST_SHARE)
    near = (whole < NEAR * here) & (whole * NEAR > here)  # never where there is no forecast
    return np.where(near, there / here, np.nan)


def forecasts_of(
    works: Sequence[Recorded],
    origin: Device,
    destination: Device,
    constants: Constants | None = None,
) -> Both:
    """Of the works that go by forecasts between these devices; NaN for all others."""
    families = BY_FORECAST if _has_sheet(origin) and _has_sheet(destination) else ()
    asked = [each.work if each.work.family in families else _NOTHING for each in works]
    return forecast_both(asked, sheet_of(origin), sheet_of(destination), constants)


def _has_sheet(device: Device) -> bool:
    return device.kind is DeviceKind.GPU and not device.reached


_NOTHING: Final = unknown()
