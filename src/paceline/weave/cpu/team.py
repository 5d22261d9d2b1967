"""`Team`: the ranks of one host that run fused kernels on shared memory together.

It owns the segment, its control region (flags, cursors), and turns a kernel's outcome into an error
that names the rank. `kernel_runtime.hpp` is the native side of the same structure.
"""

import ctypes
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from paceline.errors import PacelineError
from paceline.weave.cpu.segment import Gather, Segment

_TIMED_OUT, _STOPPED = -1000, -2000
_CURSOR_STRIDE = 8  # uint64s: one cache line a cursor


class PeerError(PacelineError):
    """Another rank died, failed or did not come in the middle of a fused step."""


class NativeTeam(ctypes.Structure):
    """`paceline::Team`."""

    _fields_ = (
        ("rank", ctypes.c_int32),
        ("size", ctypes.c_int32),
        ("fd", ctypes.c_int32),
        ("epoch", ctypes.c_uint32),
        ("timeout_ns", ctypes.c_int64),
        ("chunks", ctypes.c_int64),
        ("ready", ctypes.c_void_p),
        ("done", ctypes.c_void_p),
        ("cursor", ctypes.c_void_p),
        ("stop", ctypes.c_void_p),
    )


@dataclass(frozen=True)
class Membership:
    """Who this process is, how it reaches the others, and how long it waits for them."""

    rank: int
    size: int
    gather: Gather
    timeout_s: float = 60.0


class Team:
    """Shared regions plus the control region of kernels with at most `chunks` and `phases`."""

    def __init__(
        self, member: Membership, regions: Mapping[str, int], chunks: int, phases: int
    ) -> None:
        self.member = member
        size = member.size
        control = {
            "ready": 4 * size * chunks,
            "done": 4 * phases * chunks,
            "cursor": 8 * _CURSOR_STRIDE * phases * size,
            "stop": 4,
        }
        self.segment = Segment(member.rank, size, member.gather, {**control, **regions})
        self._native = NativeTeam(
            rank=member.rank,
            size=size,
            fd=self.segment.fd,
            epoch=0,
            timeout_ns=int(member.timeout_s * 1e9),
            chunks=chunks,
            **{name: self.segment.array(name, np.uint8).ctypes.data for name in control},
        )

    def run(self, kernel: Callable[..., int], arguments: Iterable[object]) -> None:
        """One call of a generated kernel, made by all ranks alike; raises if a peer is lost."""
        self._native.epoch = self._native.epoch % 0xFFFFFFFF + 1
        outcome = kernel(ctypes.byref(self._native), *arguments)
        if outcome != 0:
            self.stop()
            raise PeerError(self._explain(outcome))

    def stop(self) -> None:
        """Tell the peers that this rank will not come to the next step."""
        self.segment.array("stop", np.uint32)[0] = 1 + self.member.rank

    def close(self) -> None:
        self.segment.close()

    def _explain(self, outcome: int) -> str:
        rank, step = self.member.rank, self._native.epoch
        if outcome == _TIMED_OUT:
            return (
                f"rank {rank} waited {self.member.timeout_s:g} s in fused step {step} for a peer "
                "that is alive but did not come; see whether all ranks call optimizer.step() "
                "equally often, or raise timeout_s"
            )
        if outcome == _STOPPED:
            other = int(self.segment.array("stop", np.uint32)[0]) - 1
            return f"rank {other} left the fused step with an error; rank {rank} ended step {step}"
        return (
            f"rank {-1 - outcome} died; rank {rank} ended fused step {step} unfinished. "
            "Parameters may hold a mixture of old and new values: restart from a checkpoint"
        )
