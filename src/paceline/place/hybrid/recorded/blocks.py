"""Repeated blocks of a model, by the names of its modules: `layers.0`, `layers.1`, ...

Blocks are alike where modules of the same names in them run the same products and attention.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from paceline.graph import NONE, Graph, Phase
from paceline.graph.graph import Int64
from paceline.graph.work import Family, Work
from paceline.place.operators.problem import PlacementError

_NUMBER: Final = re.compile(r"(?<![^.])\d+(?![^.])")  # a whole part of a path
PRODUCTS: Final = (Family.MATRIX, Family.GROUPED_MATRIX, Family.CONVOLUTION, Family.ATTENTION)
"""What tells blocks apart: what works element by element differs with strides and broadcasts."""
_Inside = frozenset[tuple[str, int]]  # names within a block, each with what it works on


@dataclass(frozen=True)
class Blocks:
    """Blocks `prefix` + number that do the same, in the order of the forward pass."""

    prefix: str
    numbers: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.prefix}{self.numbers[0]} to {self.prefix}{self.numbers[-1]}"

    def holds(self, layer: str) -> bool:
        """Whether a layer is in one of them."""
        number = layer.removeprefix(self.prefix).split(".")[0]
        return layer.startswith(self.prefix) and number in self.numbers


def blocks_of(graph: Graph) -> Blocks:
    """The blocks that do most of the forward pass; refuses a job without any."""
    rows = forward_rows(graph)
    layers = list(dict.fromkeys(graph.ops.layer[rows].tolist()))
    if not layers:
        raise PlacementError(
            "the graph has no forward ops with a layer, so nothing tells its blocks; record the "
            "job with `paceline record`, or imagine it"
        )
    kinds = _kinds(graph)
    works = {
        graph.names[layer]: frozenset(
            kinds[work]
            for work in graph.ops.work[rows[graph.ops.layer[rows] == layer]].tolist()
            if work in kinds
        )
        for layer in layers
    }
    found = [
        blocks
        for prefix, inside in _numbered(works).items()
        if len((blocks := _alike(prefix, inside)).numbers) > 1
    ]
    if not found:
        raise PlacementError(
            f"the job has no repeated blocks: of its {len(works)} layers ({', '.join(works)}) none "
            "with numbers in their names do the same. A plan folds blocks that are alike; "
            "`paceline pipeline RUN` plans the stages of any layers"
        )
    return max(found, key=lambda blocks: (_flops(graph, rows, blocks), -len(blocks.prefix)))


def forward_rows(graph: Graph) -> Int64:
    """Ops of layers in the forward passes of the first rank's first step."""
    ops = graph.ops
    mine = (ops.rank == min(graph.ranks, default=0)) & (ops.phase == Phase.FORWARD)
    mine &= ops.layer != NONE
    return np.flatnonzero(mine & (ops.step == ops.step[mine].min(initial=np.iinfo(np.int32).max)))


def _kinds(graph: Graph) -> Mapping[int, int]:
    """By row of `Graph.works`, for products: the first row with the same work."""
    first: dict[Work, int] = {}
    return {
        row: first.setdefault(each.work, row)
        for row, each in enumerate(graph.works)
        if each.work.family in PRODUCTS
    }


def _numbered(works: Mapping[str, frozenset[int]]) -> Mapping[str, Mapping[str, _Inside]]:
    """By what stands before a number in layers' names: what is in each number."""
    found: dict[str, dict[str, set[tuple[str, int]]]] = defaultdict(lambda: defaultdict(set))
    for layer, mine in works.items():
        for prefix, number, rest in _parts(layer):
            if mine:
                found[prefix][number] |= {(rest, work) for work in mine}
    return {
        prefix: {number: frozenset(inside) for number, inside in numbers.items()}
        for prefix, numbers in found.items()
    }


def _parts(layer: str) -> Iterator[tuple[str, str, str]]:
    for number in _NUMBER.finditer(layer):
        yield layer[: number.start()], number[0], layer[number.end() :]


def _alike(prefix: str, inside: Mapping[str, _Inside]) -> Blocks:
    """The most that do the same."""
    kind, _ = Counter(inside.values()).most_common(1)[0]
    return Blocks(prefix, tuple(number for number, what in inside.items() if what == kind))


def _flops(graph: Graph, rows: Int64, blocks: Blocks) -> int:
    held = np.array([blocks.holds(name) for name in graph.names], np.bool_)
    return int(graph.ops.flops[rows[held[graph.ops.layer[rows]]]].sum())
