"""How long a described step takes on GPUs that nobody measured."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from paceline.cost.forecast.asked import Kind, ask
from paceline.cost.forecast.domain import CALLS, DOMAIN
from paceline.cost.forecast.learned import Constants, shipped
from paceline.cost.forecast.method import ForecastQuestion
from paceline.cost.forecast.sheet import Sheet
from paceline.cost.forecast.tasks import keys
from paceline.cost.forecast.works import Timed, forecast
from paceline.cost.passes import PassTimes
from paceline.graph.kinds import Collective, DType
from paceline.graph.work import Work
from paceline.imagine.language.parallel import GpuStep, RepeatedCollective

_NCCL: Final = 27.0  # the version whose times are asked for
_PCIE_BYTES_PER_S: Final = 12e9
"""Of a device whose sheet names no link: PCIe 3.0 with 16 lanes, as its copies reach it."""


def step_forecast(
    step: GpuStep, sheet: Sheet, gpus: int = 1, constants: Constants | None = None
) -> PassTimes:
    """Kernels run one after another; gradients are exchanged beside the backward pass."""
    constants = constants or shipped()
    there = _works_ns(step.forward, sheet, constants) * step.turns
    back = _works_ns(step.backward, sheet, constants) * step.turns
    sent = sum(exchange_ns(one, sheet, gpus, constants) for one in step.exchanged)
    sent_back = sum(exchange_ns(one, sheet, gpus, constants) for one in step.exchanged_back)
    if step.beside:
        return PassTimes(there + sent, max(back, sent_back) + _LAST * min(back, sent_back))
    return PassTimes(there + sent, back + sent_back)


_LAST: Final = 0.15
"""Share of the shorter of exchange and backward pass that is not hidden: the first gradients come
late and the last bucket is sent when no work is left (not measured here)."""


def exchange_ns(one: RepeatedCollective, sheet: Sheet, gpus: int, constants: Constants) -> float:
    """Time of collectives among the GPUs of one host."""
    if not sheet.link_bytes_per_s or one.collective is Collective.POINT_TO_POINT:
        link = sheet.link_bytes_per_s or _PCIE_BYTES_PER_S
        passes = 2 * (gpus - 1) / gpus if one.collective is Collective.ALL_REDUCE else 1
        return one.count * (10_000 + passes * one.size_bytes / (0.8 * link) * 1e9)
    cells = (CALLS.index(one.collective), gpus, one.size_bytes, _NCCL, 2)
    dims = {name: np.array([cell], np.float32) for name, cell in zip(DOMAIN.columns, cells)}
    question = ForecastQuestion(dims, DType.FLOAT16, sheet)
    kind = Kind(DOMAIN, keys("domain", DType.FLOAT16, sheet.vendor))
    return one.count * float(ask(kind, question, constants).dur_ns[0])


def _works_ns(works: Sequence[Work], sheet: Sheet, constants: Constants) -> float:
    """With launches: a described step has no host that could run ahead."""
    return float(forecast(works, sheet, constants, Timed.CALL).dur_ns.sum()) if works else 0.0
