"""Ring: n - 1 steps of S/n each to add up, n - 1 to pass the sums on.

All-reduce on links of latency a and rate B: 2 (n - 1) (a + S / (n B)), the least that any
algorithm can put on a member's link. Patarasuk and Yuan, "Bandwidth optimal all-reduce" (2009).
"""

from dataclasses import dataclass
from typing import ClassVar

from paceline.cost.collectives.algorithm import Algorithm, Call, Round, everyone_to
from paceline.graph.kinds import Collective


@dataclass(frozen=True)
class Ring(Algorithm):
    name: ClassVar[str] = "ring"
    serves: ClassVar[frozenset[Collective]] = frozenset(
        {Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.ALL_GATHER}
    )

    def rounds(self, call: Call) -> list[Round]:
        n = call.members
        add = everyone_to(1, n, call.size_bytes / n, n - 1, reduced=True)
        spread = everyone_to(1, n, call.size_bytes / n, n - 1, reduced=False)
        return {
            Collective.ALL_REDUCE: [add, spread],
            Collective.REDUCE_SCATTER: [add],
            Collective.ALL_GATHER: [spread],
        }[call.collective]
