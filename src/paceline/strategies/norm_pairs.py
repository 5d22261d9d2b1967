"""Batch norms of a recorded job that a ReLU follows, forward and backward."""

from dataclasses import dataclass

from paceline.graph import Graph, Phase
from paceline.graph.graph import Bool
from paceline.strategies.neighbours import followed, marked

_NORM, _RELU = "aten::native_batch_norm", "aten::clamp_min"
_NORM_BACK, _RELU_BACK = "aten::native_batch_norm_backward", "aten::threshold_backward"


@dataclass(frozen=True, eq=False)
class NormPairs:
    """Which ops work on them."""

    norms: Bool
    relus: Bool
    relus_back: Bool
    norms_back: Bool


def norm_pairs(graph: Graph) -> NormPairs:
    """Those of the forward pass, and in the backward pass those of the same layers."""
    forward = list(followed(graph, Phase.FORWARD, _NORM, _RELU))
    layers = {int(graph.ops.layer[norm[0]]) for norm, _ in forward}
    backward = [
        (relu, norm)
        for relu, norm in followed(graph, Phase.BACKWARD, _RELU_BACK, _NORM_BACK)
        if int(graph.ops.layer[norm[0]]) in layers
    ]
    return NormPairs(
        marked(graph, *(norm for norm, _ in forward)),
        marked(graph, *(relu for _, relu in forward)),
        marked(graph, *(relu for relu, _ in backward)),
        marked(graph, *(norm for _, norm in backward)),
    )
