"""The host of an imagined rank: a call for every operator, which launches what the device runs.

It runs ahead of the device until the script reads a value. Wrong where Python itself takes long
between operators, and for operators that take lists of many tensors, which cost their host here as
much as one that takes one.
"""

from collections.abc import Sequence
from typing import Final

from paceline.graph import NONE, UNPRICED, DepKind, GraphBuilder, LaneKind, OpKind, Phase
from paceline.graph.border import UNSCALED
from paceline.imagine.imagined import ImaginedOp

CALL: Final = 0.5
"""Of what a launch costs the host, one call of an operator, be it a view: 12.5 us, where
`cost.compute` has 25 for a launch. BERT-small and Qwen1.5-0.5B make 2.8 and 1.9 calls for each
operator that launches. Less what recording cost, each call took 14 us beside the H100 on which they
were traced, in both models, and 12 us beside an MI300X (benchmarks/accuracy/imagined.py)."""


class HostThread:
    """One rank's thread."""

    def __init__(self, builder: GraphBuilder, rank: int) -> None:
        self._builder = builder
        self._lane = builder.lane(rank, "host", kind=LaneKind.THREAD)

    def launch(self, row: ImaginedOp, ops: Sequence[int]) -> int:
        """The call of a row, and of the views before it; `ops` are those of the rows before."""
        call = self._builder.op(
            row.name,
            self._lane,
            UNPRICED,
            kind=OpKind.HOST,
            phase=Phase(row.phase),
            step=row.step,
            scale_ppb=round(UNSCALED * CALL * row.calls),
        )
        if row.read_after != NONE:
            self._builder.link(ops[row.read_after], call, DepKind.WAIT)
        return call
