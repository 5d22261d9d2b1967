"""Double binary tree: two trees, each for half of the bytes, whose leaves are inner in the other.

Chunks climb to both roots and come down again at once: (2 d + c - 1) (a + s / B) for depth d and c
chunks of s bytes, where an inner member has two children. Sanders, Speck and Traff (2009); what
NCCL calls tree.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import ClassVar

from paceline.cost.collectives.algorithm import Algorithm, Call, Round, pipelined
from paceline.graph.kinds import Collective

Edge = tuple[int, int]


@dataclass(frozen=True)
class DoubleTree(Algorithm):
    name: ClassVar[str] = "double-tree"
    serves: ClassVar[frozenset[Collective]] = frozenset({Collective.ALL_REDUCE})
    chunk_bytes: int = 512 * 1024
    most_chunks: int = 256

    def rounds(self, call: Call) -> list[Round]:
        half = call.size_bytes / 2
        chunks = min(self.most_chunks, max(1, ceil(half / self.chunk_bytes)))
        one = levels(parents(call.members))
        two = [[(_mirror(a, call.members), _mirror(b, call.members)) for a, b in level]
               for level in one]  # fmt: skip
        up = [first + second for first, second in zip(one, two)]
        down = [[(b, a) for a, b in level] for level in reversed(up)]
        return pipelined([*up, *down], half / chunks, chunks, reduced=len(up))


def parents(n: int) -> list[int]:
    """Parent of each member in an in-order binary tree; -1 for the root, member 0.

    A member's lowest set bit is its height: odd members are leaves.
    """
    found = [-1] * n
    for member in range(1, n):
        bit = member & -member
        parent = (member ^ bit) | (bit << 1)
        found[member] = parent if parent < n else member ^ bit
    return found


def levels(parent: Sequence[int]) -> list[list[Edge]]:
    """(child, parent) edges by distance from the root, the deepest first."""
    depth = [_depth(parent, member) for member in range(len(parent))]
    return [
        [(m, parent[m]) for m in range(len(parent)) if depth[m] == level]
        for level in range(max(depth), 0, -1)
    ]


def _depth(parent: Sequence[int], member: int) -> int:
    depth = 0
    while parent[member] >= 0:
        member, depth = parent[member], depth + 1
    return depth


def _mirror(member: int, n: int) -> int:
    """The second tree: shifted by one where n is odd, mirrored where it is even, as NCCL does."""
    return n - 1 - member if n % 2 == 0 else (member + 1) % n
