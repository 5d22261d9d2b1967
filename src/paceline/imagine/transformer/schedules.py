"""The order in which a pipeline stage works: forward, backward and weight passes of micro-batches.

All stages take forwards in one order and backwards in one order, so that messages between two
stages arrive in the order in which they are waited for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from paceline.imagine.transformer.description import Schedule


class Pass(IntEnum):
    """What a block of work does. BACKWARD has both halves unless the schedule splits WEIGHT off."""

    FORWARD = 0
    BACKWARD = 1
    WEIGHT = 2


@dataclass(frozen=True)
class Block:
    """One pass of one micro-batch through one model chunk."""

    work: Pass
    microbatch: int
    chunk: int = 0


def order(
    schedule: Schedule, stage: int, stages: int, microbatches: int, chunks: int
) -> list[Block]:
    """The blocks of one stage, in the order in which it runs them."""
    return _ORDERS[schedule](stage, stages, microbatches, chunks)


def _gpipe(stage: int, stages: int, microbatches: int, chunks: int) -> list[Block]:
    """All forwards, then all backwards, the last micro-batch first (Huang et al. 2019)."""
    forward = [Block(Pass.FORWARD, i) for i in range(microbatches)]
    return forward + [Block(Pass.BACKWARD, i) for i in reversed(range(microbatches))]


def _one_f_one_b(stage: int, stages: int, microbatches: int, chunks: int) -> list[Block]:
    """As many forwards as there are stages below, then one and one (PipeDream-Flush)."""
    warm = min(stages - 1 - stage, microbatches)
    return _alternating(
        [Block(Pass.FORWARD, i) for i in range(microbatches)],
        [Block(Pass.BACKWARD, i) for i in range(microbatches)],
        warm,
    )


def _interleaved(stage: int, stages: int, microbatches: int, chunks: int) -> list[Block]:
    """Each stage holds several chunks of layers and turns between them (Narayanan et al. 2021)."""
    total = microbatches * chunks
    warm = min((stages - 1 - stage) * 2 + (chunks - 1) * stages, total)
    places = [_place(k, stages, chunks) for k in range(total)]
    forward = [Block(Pass.FORWARD, i, chunk) for i, chunk in places]
    backward = [Block(Pass.BACKWARD, i, chunks - 1 - chunk) for i, chunk in places]
    return _alternating(forward, backward, warm)


def _zero_bubble(stage: int, stages: int, microbatches: int, chunks: int) -> list[Block]:
    """1F1B whose weight gradients wait: stage s delays them by s micro-batches (ZB-H1, Qi 2024).

    Every stage then keeps equally many micro-batches, and the tail of weight passes fills what
    would be the bubble of the later stages.
    """
    found: list[Block] = []
    for block in _one_f_one_b(stage, stages, microbatches, chunks):
        found.append(block)
        late = block.microbatch - stage
        if block.work is Pass.BACKWARD and late >= 0:
            found.append(Block(Pass.WEIGHT, late))
    rest = range(max(0, microbatches - stage), microbatches)
    return found + [Block(Pass.WEIGHT, i) for i in rest]


def _alternating(forward: list[Block], backward: list[Block], warm: int) -> list[Block]:
    steady = [b for pair in zip(forward[warm:], backward) for b in pair]
    return forward[:warm] + steady + backward[len(forward) - warm :]


def _place(k: int, stages: int, chunks: int) -> tuple[int, int]:
    """(micro-batch, chunk) of the k-th forward: `stages` micro-batches a chunk, then the next."""
    group, within = divmod(k, stages * chunks)
    chunk, offset = divmod(within, stages)
    return group * stages + offset, chunk


_ORDERS: dict[Schedule, Callable[[int, int, int, int], list[Block]]] = {
    Schedule.GPIPE: _gpipe,
    Schedule.ONE_F_ONE_B: _one_f_one_b,
    Schedule.INTERLEAVED: _interleaved,
    Schedule.ZERO_BUBBLE: _zero_bubble,
}
