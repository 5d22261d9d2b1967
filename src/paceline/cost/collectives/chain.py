"""Chain: members in a row hand chunks on, from the root (broadcast) or to it (reduce).

(n - 2 + c) (a + S / (c B)) for c chunks: one link's worth of bytes a member, however many members.
"""

from dataclasses import dataclass
from math import ceil
from typing import ClassVar

from paceline.cost.collectives.algorithm import Algorithm, Call, Round, pipelined
from paceline.graph.kinds import Collective


@dataclass(frozen=True)
class Chain(Algorithm):
    name: ClassVar[str] = "chain"
    serves: ClassVar[frozenset[Collective]] = frozenset({Collective.BROADCAST, Collective.REDUCE})
    chunk_bytes: int = 1024 * 1024
    most_chunks: int = 256

    def rounds(self, call: Call) -> list[Round]:
        n = call.members
        row = [(call.root + i) % n for i in range(n)]
        chunks = min(self.most_chunks, max(1, ceil(call.size_bytes / self.chunk_bytes)))
        stages = [[(row[i], row[i + 1])] for i in range(n - 1)]
        reduce = call.collective is Collective.REDUCE
        if reduce:
            stages = [[(b, a) for a, b in stage] for stage in reversed(stages)]
        return pipelined(stages, call.size_bytes / chunks, chunks, len(stages) if reduce else 0)
