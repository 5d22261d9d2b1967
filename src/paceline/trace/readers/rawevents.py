"""`RawEvents`: the events of a Chrome-format trace as columns, before they get a meaning.

Filled by the plain scanner (`scan.py`, the specification) or by its native twin. A `pid` or `tid`
that is text is stored as TEXT_BASE minus its name index. ABSENT marks a missing number.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]

ABSENT: Final = -1
TEXT_BASE: Final = -(1 << 40)


@dataclass(frozen=True, eq=False)
class Ranges:
    """Rows with a duration (`ph` X), and begins (B) and ends (E) that have yet to be paired."""

    mark: NDArray[np.uint8]  # ord of `ph`
    name: Int32
    category: Int32  # index into the names
    pid: Int64
    tid: Int64
    start_ns: Int64
    dur_ns: Int64
    correlation: Int64
    external: Int64  # External id
    sequence: Int64  # autograd sequence number
    fwd_thread: Int64  # nonzero in the backward pass
    record: Int64  # record-function id
    size_bytes: Int64
    stream: Int64
    form: Int32  # row of `RawEvents.forms`

    def __len__(self) -> int:
        return len(self.mark)


@dataclass(frozen=True, eq=False)
class Arrows:
    """Forward-backward flow marks: `ph` s (start) and f (finish), joined by id."""

    mark: NDArray[np.uint8]
    id: Int64
    pid: Int64
    tid: Int64
    at_ns: Int64


@dataclass(frozen=True, eq=False)
class MemoryMarks:
    """`[memory]` instants of the allocator."""

    pid: Int64
    tid: Int64
    at_ns: Int64
    address: Int64
    delta_bytes: Int64
    device_type: Int64  # 0 host, 1 CUDA
    device: Int64


@dataclass(frozen=True, eq=False)
class RawEvents:
    """All that a scan of one file found."""

    header: bytes  # the document without its events, a JSON object
    names: list[str]
    forms: list[bytes]
    """JSON objects of what `args` tell of an operator's inputs or of a kernel's launch."""
    ranges: Ranges
    arrows: Arrows
    memory: MemoryMarks
    details: list[tuple[int, bytes]]  # row of `ranges` -> its `args` as JSON
    metadata: list[bytes]  # whole `ph` M events as JSON
    repaired: int  # events whose invalid JSON could be mended
    lost: int  # events that could not be read
    whole: bool  # the document ended as it should
