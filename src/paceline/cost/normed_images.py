"""How much longer a GPU's batch norms take in bfloat16, and with channels last.

By forecasts of the kernels that run before and after (`forecast.batch_norms`); with channels last
all of them take their passes over memory, in whichever type. What changes were made before is told
by `Facts.variants`, so that two of them give the same in either order.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from paceline.cluster import Device
from paceline.cost.forecast import forecast, sheet_of
from paceline.cost.forecast.channels import with_channels_last
from paceline.graph import DType, Graph
from paceline.graph.variants import Variant
from paceline.graph.work import Family, Rows, Work, batch_norm

Ratios = NDArray[np.float64]


def batch_norm_ratios(graph: Graph, variant: Variant, device: Device) -> Ratios:
    """By work of the graph; 1 of all that is no batch norm."""
    before = graph.facts.variants
    mine = [at for at, each in enumerate(graph.works) if each.work.family is Family.BATCH_NORM]
    works = [graph.works[at].work for at in mine]
    found = np.ones(len(graph.works))
    if works:
        found[mine] = _ns(works, (*before, variant), device) / _ns(works, before, device)
    return found


def _ns(works: Sequence[Work], variants: Sequence[Variant], device: Device) -> Ratios:
    """What they take in these variants of how they were recorded."""
    sheet, narrow = sheet_of(device), Variant.BF16 in variants
    typed = [_narrowed(work) if narrow else work for work in works]
    first = forecast(typed, sheet).dur_ns.astype(np.float64)
    if Variant.CHANNELS_LAST not in variants:
        return first
    return with_channels_last(typed, first, sheet)


def _narrowed(work: Work) -> Work:
    assert isinstance(work.dims, Rows)
    return batch_norm(work.dims, DType.BFLOAT16, work.way)
