"""The size of what each op passes to its readers, and how that is known.

Best known where memory events tell what an op allocates: its result is the largest piece. Else the
bytes that a compute op touches stand for it, which is more than it passes on. A message's size is
its own. Of other ops nothing is known, and whoever counts on them says so.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from paceline.graph import Graph, MemoryCategory, OpKind
from paceline.graph.graph import Int64

STAYS = (MemoryCategory.WEIGHTS, MemoryCategory.OPTIMIZER)
"""Allocations that are nobody's result."""


class Basis(IntEnum):
    """How a size is known; the better the higher."""

    UNKNOWN = 0
    TOUCHED = 1  # an upper bound
    ALLOCATED = 2  # or a message's own size


@dataclass(frozen=True, eq=False)
class OutputSizes:
    """One row an op."""

    size_bytes: Int64
    basis: NDArray[np.uint8]

    def counts(self, rows: Int64) -> dict[str, int]:
        """How many of these ops are known how well."""
        return {b.name.lower(): int((self.basis[rows] == b).sum()) for b in reversed(Basis)}

    def notes(self, rows: Int64, what: str = "ops") -> tuple[str, ...]:
        """What has to be said about the sizes of these ops' results."""
        counts, found = self.counts(rows), []
        if counts["unknown"]:
            found.append(
                f"the graph does not say how many bytes {counts['unknown']} of {len(rows)} {what} "
                "pass on: their messages count as free. Import a trace with memory events, or "
                "imagine the run, to know."
            )
        if counts["touched"]:
            found.append(
                f"for {counts['touched']} of {len(rows)} {what} only the bytes touched are known, "
                "which is more than they pass on: their messages are priced too high"
            )
        return tuple(found)


def output_sizes(graph: Graph) -> OutputSizes:
    """Of every op of a graph."""
    ops = graph.ops
    made = _largest_allocation(graph)
    message = np.isin(ops.kind, (OpKind.SEND, OpKind.RECV)) & (ops.size_bytes > 0)
    basis = np.where(ops.size_bytes > 0, Basis.TOUCHED, Basis.UNKNOWN)
    basis[(made > 0) | message] = Basis.ALLOCATED
    size = np.where((made > 0) & ~message, made, np.maximum(ops.size_bytes, 0))
    return OutputSizes(size.astype(np.int64), basis.astype(np.uint8))


def _largest_allocation(graph: Graph) -> Int64:
    memory = graph.memory
    found = np.zeros(len(graph), np.int64)
    counted = (memory.delta_bytes > 0) & ~np.isin(memory.category, STAYS)
    np.maximum.at(found, memory.op[counted], memory.delta_bytes[counted])
    return found
