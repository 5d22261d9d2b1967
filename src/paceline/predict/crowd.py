"""Work of more threads than cores takes longer than waiting for a core explains: they take turns,
and each finds the others' data in the caches. What a product takes longer so, `paceline measure
--lab` measures (`Machine.crowded_product`).

It is taken out of a recording that was made so, and put into the changed job where it runs so.

Wrong where work passes through memory, which takes longer still (`Machine.crowded_pass`): what an
op of a recording does most is not told apart. And where another machine was recorded than was
measured.
"""

import numpy as np

from paceline.cluster.machine import Machine
from paceline.graph import Basis, Graph, LaneKind
from paceline.graph.graph import Bool
from paceline.graph.scaled import scaled, works


def uncrowded(graph: Graph, machine: Machine | None) -> Graph:
    """A recorded step whose work takes as long as with a core for each worker."""
    return _scaled(graph, 1 / _longer(graph, machine))


def crowded(graph: Graph, machine: Machine | None) -> Graph:
    """A step whose recorded work takes as long as on the cores that its workers share."""
    return _scaled(graph, _longer(graph, machine))


def _longer(graph: Graph, machine: Machine | None) -> float:
    """How many times as long as with a core for each worker. 1 where the recording does not say on
    which cores it was made, for what it holds of this is then not known either."""
    if machine is None or not graph.facts.cores:
        return 1.0
    return machine.crowded(graph.world_size)


def _scaled(graph: Graph, factor: float) -> Graph:
    return graph if factor == 1 else scaled(graph, _recorded(graph), factor)


def _recorded(graph: Graph) -> Bool:
    """Threads' work that takes as long as it was seen to."""
    ops = graph.ops
    seen = np.isin(ops.basis, (Basis.RECORDED, Basis.WALL)) & (ops.dur_ns > 0)
    found: Bool = works(graph) & seen & (graph.lanes.kind[ops.lane] == LaneKind.THREAD)
    return found
