"""Nodes dealt out to parts with few edges between them: by METIS where installed, else greedily.

Karypis and Kumar, "A Fast and High Quality Multilevel Scheme for Partitioning Irregular Graphs"
(1998), through the package pymetis. The greedy way grows each part from a node by its neighbours
and cuts more edges; `Parting.by` says which it was.
"""

from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from paceline.learn.errors import LearnError
from paceline.learn.graphs.attributed import Attributed
from paceline.learn.samples import Rows


@dataclass(frozen=True, eq=False)
class Parting:
    """The part of each node."""

    part: Rows
    parts: int
    by: str
    cut_share: float  # of the edges, those between parts
    notes: tuple[str, ...] = ()


def parted(graph: Attributed, parts: int, by: str = "") -> Parting:
    """`by` is "metis" or "greedy"; empty: METIS where it is installed."""
    if not 1 <= parts <= len(graph):
        raise LearnError(f"{len(graph)} nodes cannot lie in {parts} parts; give 1 to {len(graph)}")
    chosen = by or ("metis" if find_spec("pymetis") else "greedy")
    if chosen not in _WAYS:
        raise LearnError(f"no way to part a graph is called {by!r}; known are {', '.join(_WAYS)}")
    part = _WAYS[chosen](graph, parts)
    empty = np.flatnonzero(np.bincount(part, minlength=parts) == 0)
    if len(empty):
        raise LearnError(f"part {int(empty[0])} of {parts} has no nodes; ask for fewer parts")
    source = np.repeat(np.arange(len(graph)), graph.degrees)
    cut = float((part[source] != part[graph.to]).mean()) if len(source) else 0.0
    return Parting(part, parts, chosen, cut, tuple(_notes(graph, by, chosen)))


def _notes(graph: Attributed, by: str, chosen: str) -> list[str]:
    found = []
    if not by and chosen == "greedy":
        found.append("pymetis is not installed, so parts are grown greedily and cut more edges")
    pieces = graph.components()
    if pieces > 1:
        found.append(
            f"the graph has {pieces} pieces without an edge between them: what is learned in one "
            "does not reach the others but through the weights"
        )
    return found


def _metis(graph: Attributed, parts: int) -> Rows:
    if not find_spec("pymetis"):
        raise LearnError("METIS needs the package pymetis: pip install 'paceline[learn]'")
    import pymetis

    if parts == 1:
        return np.zeros(len(graph), np.int64)
    adjacency = pymetis.CSRAdjacency(graph.ptr.tolist(), graph.to.tolist())
    _, found = pymetis.part_graph(parts, adjacency)
    return np.array(found, np.int64)


def _greedy(graph: Attributed, parts: int) -> Rows:
    """Breadth first from the first free node, until the part is full."""
    found = np.full(len(graph), -1, np.int64)
    sizes = [len(each) for each in np.array_split(np.arange(len(graph)), parts)]
    for part, size in enumerate(sizes):
        taken: list[int] = []
        front: list[int] = []
        free = iter(np.flatnonzero(found < 0).tolist())
        while len(taken) < size:
            node = front.pop(0) if front else next(free)
            if found[node] < 0:
                found[node] = part
                taken.append(node)
                front += graph.to[graph.ptr[node] : graph.ptr[node + 1]].tolist()
    return found


_WAYS = {"metis": _metis, "greedy": _greedy}
