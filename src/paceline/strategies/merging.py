"""Linear layers of a recorded job that may be one product: those of one parent, of inputs of one
size, whose products follow one another with no other work between."""

from collections.abc import Iterator
from itertools import accumulate, groupby, pairwise

from paceline.graph import Graph, Parameter, Phase
from paceline.graph.graph import Bool
from paceline.graph.kinds import NONE
from paceline.graph.scaled import works
from paceline.strategies.neighbours import calls, marked
from paceline.strategies.remodelling import linear_weights

_PRODUCTS = frozenset({"aten::addmm", "aten::mm"})


def merged_layers(graph: Graph) -> list[tuple[str, ...]]:
    """Layers that become one, each group once."""
    weights = {weight.layer: weight for weight in linear_weights(graph)}
    return sorted(set(_groups(graph, weights)))


def products_of(graph: Graph, groups: list[tuple[str, ...]]) -> Bool:
    """The products of these layers, forward and backward."""
    layers = {layer for group in groups for layer in group}
    mine = [
        run
        for phase in (Phase.FORWARD, Phase.BACKWARD)
        for lane in calls(graph, phase)
        for name, run in lane
        if name in _PRODUCTS and _layer(graph, run) in layers
    ]
    found: Bool = marked(graph, *mine) & works(graph)
    return found


def _groups(graph: Graph, weights: dict[str, Parameter]) -> Iterator[tuple[str, ...]]:
    for lane in calls(graph, Phase.FORWARD):
        layers = [_layer(graph, run) if name in _PRODUCTS else "" for name, run in lane]
        breaks = [not _may_merge(weights, one, other) for one, other in pairwise(layers)]
        numbers = accumulate(breaks, initial=0)
        for _, group in groupby(zip(numbers, layers), lambda pair: pair[0]):
            names = tuple(layer for _, layer in group)
            if len(names) > 1:
                yield names


def _may_merge(weights: dict[str, Parameter], one: str, other: str) -> bool:
    """Numbered layers are a sequence, each reading the one before."""
    if one == other or one not in weights or other not in weights:
        return False
    (parent, _, name), (same, _, next_) = one.rpartition("."), other.rpartition(".")
    inputs = weights[one].shape[1] == weights[other].shape[1]
    return parent == same and inputs and not (name.isdecimal() or next_.isdecimal())


def _layer(graph: Graph, run: list[int]) -> str:
    layer = int(graph.ops.layer[run[0]])
    return graph.names[layer] if layer != NONE else ""
