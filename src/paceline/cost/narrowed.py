"""What recorded calls of a GPU take under autocast to bfloat16, as multiples of what they took.

Products and attention by forecasts of both types on that GPU; where nothing taught one of them, by
the rates that it achieves. What torch keeps in float32 (norms over rows, softmax, losses) stays;
pools with indices, too. All else moves half the bytes; convolutions, which torch runs as TF32, at
twice the rate as well. Batch norms of images become longer where channels lie first, for torch runs
them by kernels of its own in bfloat16 (`normed_images`). Casts are left out.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from paceline.cluster import Device
from paceline.cluster.files import device as preset
from paceline.cost.achieved import achieved
from paceline.cost.forecast import forecast, sheet_of, shipped, taught
from paceline.cost.normed_images import batch_norm_ratios
from paceline.cost.ported import recorded_device
from paceline.cost.ported.roof import roof_ns
from paceline.graph import DType, Graph
from paceline.graph.variants import Variant
from paceline.graph.work import (
    Attention,
    Family,
    Matrix,
    Recorded,
    Work,
    attention,
    matrix,
)

Ratios = NDArray[np.float64]

HALVED: Final = 0.5
_KEPT: Final = (
    *("aten::native_layer_norm", "aten::native_group_norm", "aten::_softmax", "aten::_log_softmax"),
    *("aten::nll_loss", "aten::mse_loss", "aten::norm", "aten::cumsum", "aten::exp", "aten::log"),
    *("aten::max_pool2d_with_indices", "MaxPool2D"),
)
"""By the beginning of their names, so that backward calls are among them."""
_MADE: Final[Mapping[type, Callable[[Any, DType, Any], Work]]] = {
    Matrix: lambda dims, dtype, way: matrix(dims, dtype),
    Attention: attention,
}


def in_bfloat16(graph: Graph) -> Ratios:
    """By work of the graph, and one more of no work."""
    carried = graph.facts.carried_to
    device = preset(carried) if carried else recorded_device(graph)
    by_name = [_by_name(each) for each in graph.works]
    narrow = {at: made for at, each in enumerate(graph.works) if (made := _narrow(each.work))}
    found = np.array([*by_name, HALVED])
    if narrow:
        works = [graph.works[at].work for at in narrow]
        found[list(narrow)] = _by_forecast(works, list(narrow.values()), device)
    norms = [at for at, each in enumerate(graph.works) if each.work.family is Family.BATCH_NORM]
    found[norms] = batch_norm_ratios(graph, Variant.BF16, device)[norms]
    return found


def _by_name(recorded: Recorded) -> float:
    return 1.0 if recorded.operator.startswith(_KEPT) else HALVED


def _narrow(work: Work) -> Work | None:
    """The same call in 16 bits; None of what matrix units do not run."""
    make = _MADE.get(type(work.dims)) if work.is_known else None
    return make(work.dims, DType.BFLOAT16, work.way) if make is not None else None


def _by_forecast(works: Sequence[Work], narrow: Sequence[Work], device: Device) -> Ratios:
    sheet, rates, constants = sheet_of(device), achieved(device), shipped()
    roofs = [np.array([roof_ns(one, rates) for one in each]) for each in (works, narrow)]
    found: Ratios = roofs[1] / roofs[0]
    both = list(zip(works, narrow))
    known = [at for at, two in enumerate(both) if all(taught(w, sheet, constants) for w in two)]
    if known:
        of_both = ([two[part] for two in (both[at] for at in known)] for part in (0, 1))
        wide_ns, narrow_ns = (forecast(each, sheet, constants).dur_ns for each in of_both)
        found[known] = narrow_ns / wide_ns
    return np.minimum(found, 1.0)
