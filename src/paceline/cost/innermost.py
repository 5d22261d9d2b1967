"""Recorded kernels of a GPU with channels last: those that bring channels to another place go, and
batch norms take their passes over memory. All else stays as recorded.

Matrix units work on channels that lie last, so libraries put what lies otherwise in that order
before a convolution and back behind it. Wrong where another layer brings the first order back, for
pools, which become shorter, and for what the host spends on launches that go: they are left in.
"""

from collections.abc import Iterator

import numpy as np

from paceline.cluster.files import device as preset
from paceline.cost.errors import CostError
from paceline.cost.normed_images import batch_norm_ratios
from paceline.cost.operators import OperatorClass, of_class
from paceline.cost.ported import recorded_device
from paceline.cost.variants import with_variant
from paceline.graph import Basis, Graph, LaneKind
from paceline.graph.graph import Bool
from paceline.graph.scaled import scaled
from paceline.graph.variants import Variant
from paceline.graph.work import Family


def innermost(graph: Graph) -> Graph:
    """The graph of a device's job with channels last."""
    layouts, norms = _layouts(graph), _of(graph, Family.BATCH_NORM)
    if not _of(graph, Family.CONVOLUTION).any():
        raise CostError(
            "no convolution is seen in this job, and nothing else runs faster with its channels "
            "last; leave channels_last out"
        )
    if not layouts.any():
        raise CostError(
            "no kernel of this job brings images into another order for its convolutions, so what "
            "channels last would bring is not known: their channels lie last already, or they run "
            "without matrix units (float32 with TF32 off). Try it with `paceline apply`"
        )
    carried = graph.facts.carried_to
    device = preset(carried) if carried else recorded_device(graph)
    ratios = np.append(batch_norm_ratios(graph, Variant.CHANNELS_LAST, device), 1.0)
    made = scaled(graph, layouts, 0.0, Basis.ARITHMETIC)
    made = scaled(made, norms, ratios[graph.ops.work], Basis.SCALED)
    return with_variant(made, Variant.CHANNELS_LAST)


def innermost_words(graph: Graph) -> Iterator[str]:
    """`graph` has the change."""
    layouts, norms = _layouts(graph).sum(), _of(graph, Family.BATCH_NORM).sum()
    yield (
        f"channels_last: {layouts:,} kernels that change the order of channels go, and {norms:,} "
        "of batch norms take their passes over memory; convolutions, pools and launches are as "
        "recorded"
    )


def _layouts(graph: Graph) -> Bool:
    found: Bool = _on_device(graph) & of_class(graph, OperatorClass.LAYOUT)
    return found


def _of(graph: Graph, family: Family) -> Bool:
    mine = [each.work.family is family for each in graph.works]
    found: Bool = _on_device(graph) & np.array([*mine, False], np.bool_)[graph.ops.work]
    return found


def _on_device(graph: Graph) -> Bool:
    found: Bool = graph.lanes.kind[graph.ops.lane] == LaneKind.STREAM
    return found
