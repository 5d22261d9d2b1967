"""Block sparsity (OmniReduce, SIGCOMM 2021): blocks that are zero on every worker are not sent.

One round ORs which blocks each worker has, the next sums those that any has. OmniReduce announces
each worker's next block with the present one, and so saves the first round's trip; the bytes are
the same but for one bit per block.
"""

from dataclasses import dataclass

import numpy as np

from paceline.wire.aggregate.rounds import Array, Floats, RoundRequest, Rounds, SwitchOp
from paceline.wire.errors import WireError

BLOCK = 256  # values, as in OmniReduce's configuration


@dataclass(frozen=True)
class Blocks:
    """The mode. Floats are summed in workers' order, so all get the same bits as `dense`."""

    size: int = BLOCK

    def __post_init__(self) -> None:
        if self.size < 1:
            raise WireError(f"blocks of {self.size} values; give 1 or more")

    def __call__(self, gradient: Floats) -> Rounds:
        rows = padded(gradient, self.size)
        used = yield RoundRequest(SwitchOp.OR, np.packbits(rows.any(axis=1)))
        kept = np.flatnonzero(np.unpackbits(used, count=len(rows)))
        if kept.size:
            rows[kept] = yield RoundRequest(SwitchOp.SUM, rows[kept])
        return rows.reshape(-1)[: gradient.size].reshape(gradient.shape)


def padded(gradient: Floats, width: int) -> Array:
    """A copy as rows of so many values, filled up with zeros."""
    rows = np.zeros((-(-gradient.size // width), width), gradient.dtype)
    rows.reshape(-1)[: gradient.size] = gradient.reshape(-1)
    return rows
