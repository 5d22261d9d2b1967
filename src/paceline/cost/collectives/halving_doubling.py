"""Recursive halving and doubling: log2(n) exchanges of S/2, S/4, ... and the same back.

All-reduce: 2 log2(n) a + 2 (n - 1) S / (n B). Where n is no power of two the members beyond the
largest one below n first fold into a partner and get the result at the end (Thakur,
Rabenseifner and Gropp 2005).
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from paceline.cost.collectives.algorithm import Algorithm, Call, Round, messages
from paceline.graph.kinds import Collective


@dataclass(frozen=True)
class HalvingDoubling(Algorithm):
    name: ClassVar[str] = "halving-doubling"
    serves: ClassVar[frozenset[Collective]] = frozenset(
        {Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.ALL_GATHER}
    )

    def rounds(self, call: Call) -> list[Round]:
        n, size = call.members, float(call.size_bytes)
        core = 1 << (n.bit_length() - 1)
        halving = [_exchange(core, core >> (k + 1), size / 2 ** (k + 1), reduced=True)
                   for k in range(core.bit_length() - 1)]  # fmt: skip
        doubling = [_exchange(core, 1 << k, size / core * 2**k, reduced=False)
                    for k in range(core.bit_length() - 1)]  # fmt: skip
        rest = [(extra, extra - core) for extra in range(core, n)]
        fold = [messages(rest, size, reduced=True)] if rest else []
        own = size / n if call.collective is Collective.REDUCE_SCATTER else size
        tell = [messages([(b, a) for a, b in rest], own)] if rest else []
        if call.collective is Collective.ALL_GATHER:
            give = [messages(rest, size / n)] if rest else []
            return [*give, *doubling, *tell]
        if call.collective is Collective.REDUCE_SCATTER:
            return [*fold, *halving, *tell]
        return [*fold, *halving, *doubling, *tell]


def _exchange(n: int, distance: int, size_bytes: float, *, reduced: bool) -> Round:
    src = np.arange(n)
    return Round(src, src ^ distance, np.full(n, size_bytes), 1, reduced)
