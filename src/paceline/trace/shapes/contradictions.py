"""Shapes that cannot be those of the kernels which they are told of.

- The grid of an element-wise kernel has room for a number of elements, which its name tells.
- Blocks of a product work out 256 x 256 results at most. A grid that stays on the device and takes
  one tile after the other (a persistent one) fills the device: fewer blocks are none.
- No kernel does more in its time than its device can (`limits`).

A call's kernels share its work, so their blocks and times are summed. Wrong where shapes tell less
than was done, or little more: both look like kernels that are slow or fast.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from paceline.graph import NONE
from paceline.graph.work import Elements, Grouped, Matrix, Work
from paceline.trace.shapes.limits import TIMER_NS, Limits
from paceline.trace.trace import Bool, Int64

Works = Sequence[tuple[str, Work]]

_WHOLE: Final = 0.5
"""Elements that a grid has room for, as a multiple of what shapes tell: below this the two speak
of different tensors. Kernels cut large tensors in two, and so may have less room than all."""
_TILE: Final = 256 * 256
"""Results of a block: no library has larger tiles."""
_PERSISTENT: Final = 0.5
"""A grid that stays leaves at most so many of the processors to others."""
_FEW: Final = 16
"""Blocks of which no grid stays, where nobody tells how many processors there are."""


@dataclass(frozen=True, eq=False)
class Ran:
    """How kernels ran, one row each, and what their device cannot exceed."""

    room: Int64  # elements of an element-wise kernel's grid; 0 for others
    blocks: Int64  # of the grid; 0 where the trace does not tell
    dur_ns: Int64
    limits: Limits


def no_room(ran: Ran, works: Works, row: Int64, call: Int64) -> Bool:
    """Element-wise kernels whose grids have no room for the elements that shapes tell. `row`: of
    `works`, NONE where nothing is told; `call`: equal for kernels of one call."""
    told = _of_works([_elements(work) for _, work in works], row)
    wrong: Bool = (ran.room > 0) & (told > 0) & (_summed(ran.room, call) < _WHOLE * told)
    return wrong


def too_much(ran: Ran, works: Works, row: Int64, call: Int64) -> Bool:
    """Kernels with fewer blocks than results, or in less time than the device needs, by what
    shapes tell."""
    least = _of_works([ran.limits.least_ns(work) for _, work in works], row)
    hasty = least > _summed(np.maximum(ran.dur_ns, TIMER_NS), call)
    results = _of_works([_results(work) for _, work in works], row)
    blocks = _summed(ran.blocks, call)
    told = (_summed((ran.blocks == 0).astype(np.int64), call) == 0) & (results > 0)
    stays = blocks >= (_PERSISTENT * ran.limits.units or _FEW)
    wrong: Bool = (row != NONE) & (hasty | (told & ~stays & (results > blocks * _TILE)))
    return wrong


def _summed(values: Int64, call: Int64) -> Int64:
    """Over the kernels of each one's call."""
    _, which = np.unique(call, return_inverse=True)
    which = which.reshape(-1)
    return np.asarray(np.bincount(which, values)[which] if len(which) else values, np.int64)


def _of_works(
    values: Sequence[float], row: Int64
) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    return np.array([*values, 0.0], np.float64)[row]


def _elements(work: Work) -> int:
    return work.dims.count if isinstance(work.dims, Elements) else 0


def _results(work: Work) -> int:
    """Of a product of matrices."""
    if isinstance(work.dims, Matrix):
        return work.dims.b * work.dims.m * work.dims.n
    return work.dims.m * work.dims.n if isinstance(work.dims, Grouped) else 0
