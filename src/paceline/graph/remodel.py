"""`remodelled`: a job whose linear layers are made of other weights.

A layer keeps its name and its place. Its work is the recorded one by the share of multiplications
that the new weights take; its gradients, their copies and the update go by their bytes. Buckets
are for the caller to cut anew. Known at the grain of ops, for only there ops have a layer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from paceline.errors import GraphError
from paceline.graph.copy_back import copy_back
from paceline.graph.facts import Parameter
from paceline.graph.gradients import reduced
from paceline.graph.graph import Bool, Graph, Int64
from paceline.graph.kinds import NONE, Basis, DepKind, OpKind, Phase
from paceline.graph.links import Links
from paceline.graph.membership import among
from paceline.graph.scaled import scaled, works
from paceline.graph.splice import Added, spliced


@dataclass(frozen=True)
class Factor:
    """One of the weights that a layer is made of."""

    shape: tuple[int, ...]
    work: float  # of a product with it, as a multiple of one with the weight that it replaces
    back: float | None = None  # of the backward pass, where that is another multiple
    basis: Basis = Basis.ARITHMETIC  # MEASURED where both are times rather than operations


@dataclass(frozen=True)
class NewLayer:
    """What takes the place of a weight: factors in the order of the forward pass."""

    weight: Parameter
    factors: tuple[Factor, ...]

    def parameters(self) -> tuple[Parameter, ...]:
        """The first has the old name."""
        old = self.weight
        bytes_each = old.size_bytes // prod(old.shape)
        return tuple(
            Parameter(
                f"{old.name}.{i}" if i else old.name,
                bytes_each * prod(factor.shape),
                factor.shape,
                old.layer,
            )
            for i, factor in enumerate(self.factors)
        )


def remodelled(graph: Graph, layers: Sequence[NewLayer]) -> Graph:
    """The graph with these layers in place of the recorded ones, in the recorded buckets."""
    for layer in layers:
        graph = _with_layer(graph, layer)
    return graph


def _with_layer(graph: Graph, new: NewLayer) -> Graph:
    before = sum(graph.facts.gradient_bytes().values())
    places = list(_places(graph, new.weight))
    if not places:
        raise GraphError(
            f"the recording does not say which ops belong to {new.weight.name}, so its layer "
            "cannot be made of other weights. Record a job under DDP with `paceline record`."
        )
    work = sum(factor.work for factor in new.factors)
    first, share = new.factors[0], prod(new.factors[0].shape) / prod(new.weight.shape)
    forward, backward, copies = (
        np.concatenate(rows) for rows in zip(*((p.forward, p.backward, p.copies) for p in places))
    )
    added = [_added(graph, place, new) for place in places]
    back = first.work if first.back is None else first.back
    graph = scaled(graph, forward, work, first.basis)
    graph = scaled(graph, backward, back, first.basis)
    graph = _told(scaled(graph, copies, share), new)
    after = sum(graph.facts.gradient_bytes().values())
    made = scaled(graph, by_bytes(graph), after / before)
    return _with_factors(made, new, [rows for each in added for rows in each])


def passes_on(graph: Graph, weight: Parameter) -> bool:
    """Whether a layer's backward has a gradient for the layer before."""
    return any(place.passes_on for place in _places(graph, weight))


@dataclass(frozen=True, eq=False)
class _Place:
    """A layer's ops in one step of one rank."""

    ready: int  # readies the weight's gradient
    forward: Int64
    backward: Int64
    copies: Int64  # of the gradient, into its bucket
    passes_on: bool  # whether it has a gradient for the layer before


def _places(graph: Graph, weight: Parameter) -> Iterator[_Place]:
    ops = graph.ops
    if weight.name not in graph.names or weight.layer not in graph.names:
        return
    name, layer = graph.names.index(weight.name), graph.names.index(weight.layer)
    ready = np.flatnonzero(ops.tensor == name)
    mine = np.flatnonzero((ops.layer == layer) & (ops.kind == OpKind.COMPUTE))
    for op in ready.tolist():
        here = mine[(ops.rank[mine] == ops.rank[op]) & (ops.step[mine] == ops.step[op])]
        forward = here[ops.phase[here] == Phase.FORWARD]
        backward = here[ops.phase[here] == Phase.BACKWARD]
        if len(forward) and len(backward):
            yield _Place(
                op, forward, backward, copies_before(graph, op), _passes_on(graph, op, layer)
            )


def copies_before(graph: Graph, ready: int) -> Int64:
    """What the thread does between the layer's last op, or another gradient's, and the op that
    readies this one."""
    ops = graph.ops
    rows = np.flatnonzero(ops.lane[: ready + 1] == ops.lane[ready])
    ends = (ops.layer[rows] != NONE) | ((ops.tensor[rows] != NONE) & (rows != ready))
    rows = rows[np.flatnonzero(ends).max(initial=NONE) + 1 :]
    chosen: Int64 = rows[(ops.kind[rows] == OpKind.COMPUTE) & (ops.phase[rows] == Phase.BACKWARD)]
    return chosen


def _passes_on(graph: Graph, ready: int, layer: int) -> bool:
    """Another layer's backward follows, which needs its gradient."""
    ops = graph.ops
    behind = (ops.rank == ops.rank[ready]) & (ops.step == ops.step[ready])
    behind &= (ops.phase == Phase.BACKWARD) & (ops.layer != NONE) & (ops.layer != layer)
    return bool(behind[ready + 1 :].any())


@dataclass(frozen=True)
class _Row:
    """A new op: work on a factor behind the first, which readies its gradient."""

    before: int  # the old op before which it stands
    dur_ns: int
    factor: int


def _added(graph: Graph, place: _Place, new: NewLayer) -> list[_Row]:
    """Backward goes through the factors from the last: product by product, for its weights and
    for what it passes on."""
    dur = np.maximum(graph.ops.dur_ns, 0)
    product = float(dur[place.backward].sum()) / (2 if place.passes_on else 1)
    copied = float(dur[place.copies].sum()) / prod(new.weight.shape)
    first, each = int(place.backward[0]), list(enumerate(new.factors))

    def took(factor: Factor) -> int:
        return round(2 * factor.work * product + copied * prod(factor.shape))

    return [_Row(first, took(factor), i) for i, factor in reversed(each[1:])]


def _told(graph: Graph, new: NewLayer) -> Graph:
    """The facts of the new parameters; buckets are no longer the recorded ones."""
    parameters = [
        made
        for old in graph.facts.parameters
        for made in (new.parameters() if old.name == new.weight.name else (old,))
    ]
    facts = replace(graph.facts, parameters=tuple(parameters), buckets=())
    names = (*graph.names, *(p.name for p in new.parameters()[1:]))
    return replace(graph, facts=facts, names=names)


def by_bytes(graph: Graph) -> Bool:
    """The update, and the copies of reduced gradients before it."""
    ops, links = graph.ops, Links.of(graph)
    found: Bool = works(graph) & (ops.phase == Phase.UPDATE) & (ops.kind == OpKind.COMPUTE)
    given = reduced(graph, links)
    for rank, step in set(zip(ops.rank[given].tolist(), ops.step[given].tolist())):
        mine = given[(ops.rank[given] == rank) & (ops.step[given] == step)]
        rows = copy_back(graph, links, mine).work
        found[rows[ops.kind[rows] == OpKind.COMPUTE]] = True
    return found


def _with_factors(graph: Graph, new: NewLayer, rows: Sequence[_Row]) -> Graph:
    """Each row becomes an op. On a device the launch of the layer's next kernel launches it."""
    links = Links.of(graph)
    if not rows:
        return graph
    like = np.array([row.before for row in rows], np.int64)
    first = len(graph.names) - len(new.factors)  # of factor i the name is first + i
    columns = {
        "dur_ns": [row.dur_ns for row in rows],
        "tensor": [first + row.factor for row in rows],
        "kind": OpKind.COMPUTE,
        "basis": Basis.ARITHMETIC,
    }
    made = len(graph) + np.arange(len(rows))
    launched = (links.kind == DepKind.LAUNCH) & among(len(graph), like)[links.op]
    launch = dict(zip(links.op[launched].tolist(), links.src[launched].tolist()))
    pairs = [(op, launch[old]) for op, old in zip(made.tolist(), like.tolist()) if old in launch]
    ends = np.array(pairs, np.int64).reshape(-1, 2)
    both = links.joined(Links.all_of(ends[:, 0], ends[:, 1], DepKind.LAUNCH))
    return spliced(graph, np.zeros(len(graph), np.bool_), Added(like, like - 1, columns), both)
