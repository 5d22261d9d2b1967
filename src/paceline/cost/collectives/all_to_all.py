"""Direct all-to-all: member i sends S/n to i + 1, i + 2, ... in turn: (n - 1) (a + S / (n B))."""

from dataclasses import dataclass
from typing import ClassVar

from paceline.cost.collectives.algorithm import Algorithm, Call, Round, everyone_to
from paceline.graph.kinds import Collective


@dataclass(frozen=True)
class AllToAll(Algorithm):
    name: ClassVar[str] = "all-to-all"
    serves: ClassVar[frozenset[Collective]] = frozenset({Collective.ALL_TO_ALL})

    def rounds(self, call: Call) -> list[Round]:
        n = call.members
        return [
            everyone_to(shift, n, call.size_bytes / n, 1, reduced=False) for shift in range(1, n)
        ]
