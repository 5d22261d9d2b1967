"""`with_bucket_gradients`: gradients of a job whose recording names no parameters.

A profiler's trace of DDP shows exchanges of gradients and the work that each of them waited for,
but not the parameters. Each piece of work that an exchange waited for is taken to ready one
gradient, with an even part of the exchange's bytes: enough to cut buckets anew.

Wrong where the gradients of one bucket differ much in size: a new bucket's bytes are then ready a
little earlier or later than it says. Nothing is told where steps or ranks exchange differently.
"""

from dataclasses import replace

import numpy as np

from paceline.graph.facts import Parameter
from paceline.graph.gradients import reducing
from paceline.graph.graph import Graph, Int64
from paceline.graph.kinds import DepKind
from paceline.graph.links import Links
from paceline.graph.rank_steps import RankSteps

NOTE = (
    "parameters were not recorded: of each exchange of gradients, the work that it waited for is "
    "taken to ready an even part of its bytes (inferred)"
)


def with_bucket_gradients(graph: Graph) -> Graph:
    """The graph with inferred parameters among its facts, and the ops that ready them named; itself
    where it has some already, or where steps do not exchange alike."""
    links = Links.of(graph)
    calls = reducing(graph, links)
    if graph.facts.parameters or not len(calls):
        return graph
    steps = _by_step(graph, calls)
    sizes = [tuple(graph.ops.size_bytes[mine].tolist()) for mine in steps]
    if len(set(sizes)) != 1 or not all(sizes[0]):
        return graph
    feeding = [_feeding(links, mine) for mine in steps]
    counts = [min(map(len, of_bucket)) for of_bucket in zip(*feeding)]
    return _named(graph, feeding, sizes[0], counts) if all(counts) else graph


def _by_step(graph: Graph, calls: Int64) -> list[Int64]:
    """Each rank's exchanges of each step, in their order."""
    rows = RankSteps.of(graph).of_op[calls]
    return [calls[rows == row] for row in np.unique(rows)]


def _feeding(links: Links, calls: Int64) -> list[Int64]:
    """The ops that each call waits for as gradients, ascending; none of them twice. Links are in
    order of the op that waits."""
    chosen = links.where(links.kind == DepKind.GRADIENT)
    seen: set[int] = set()
    found = []
    first, last = (np.searchsorted(chosen.op, calls, side).tolist() for side in ("left", "right"))
    for begin, end in zip(first, last):
        mine = [op for op in np.unique(chosen.src[begin:end]).tolist() if op not in seen]
        seen.update(mine)
        found.append(np.array(mine, np.int64))
    return found


def _named(
    graph: Graph, feeding: list[list[Int64]], sizes: tuple[int, ...], counts: list[int]
) -> Graph:
    """Of each bucket as many gradients as every step shows, the last of them."""
    buckets = [
        [Parameter(f"gradient {k}.{j}", part) for j, part in enumerate(_parts(size, count))]
        for k, (size, count) in enumerate(zip(sizes, counts))
    ]
    names, tensor = [*graph.names], graph.ops.tensor.copy()
    for k, bucket in enumerate(buckets):
        first = len(names)
        names += [parameter.name for parameter in bucket]
        for of_step in feeding:
            tensor[of_step[k][-len(bucket) :]] = np.arange(first, len(names))
    facts = replace(
        graph.facts,
        parameters=tuple(parameter for bucket in buckets for parameter in bucket),
        buckets=tuple(tuple(parameter.name for parameter in bucket) for bucket in buckets),
    )
    return replace(graph, ops=replace(graph.ops, tensor=tensor), names=tuple(names), facts=facts)


def _parts(size_bytes: int, count: int) -> list[int]:
    """Even parts; what is left over goes to the first."""
    part = size_bytes // count
    return [part + (size_bytes - part * count if at == 0 else 0) for at in range(count)]
