"""`Team`: the ranks of one host that run fused kernels on shared memory together.

It owns the segment, its control region (flags, cursors), and turns a kernel's outcome into an error
that names the rank. `kernel_runtime.hpp` is the native side of the same structure.
"""

import ctypes
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from paceline.errors import PacelineError
from paceline.weave.cpu.segment import Gather, Segment
from paceline.weave.host import HostSettings

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
    """Who this process is, how it reaches the others, how long it waits for them, and its host."""

    rank: int
    size: int
    gather: Gather
    timeout_s: float = 60.0
    host: HostSettings = field(default_factory=HostSettings)


@dataclass(frozen=True)
class Control:
    """How large the flags must be: chunks and phases of each launch of a program."""

    chunks: tuple[int, ...]
    phases: tuple[int, ...]

    def regions(self, ranks: int) -> dict[str, int]:
        """Sizes of the control regions, each launch with its own."""
        found = {"stop": 4}
        for launch, (chunks, phases) in enumerate(zip(self.chunks, self.phases)):
            found[f"ready {launch}"] = 4 * ranks * chunks
            found[f"done {launch}"] = 4 * phases * chunks
            found[f"cursor {launch}"] = 8 * _CURSOR_STRIDE * phases * ranks
        return found


class Team:
    """Shared regions plus the control regions of a program's launches."""

    def __init__(self, member: Membership, regions: Mapping[str, int], control: Control) -> None:
        self.member = member
        places = {**control.regions(member.size), **regions}
        self.segment = Segment(member.rank, member.gather, places, member.host.shared_memory)
        self._native = [self._team_of(k, chunks) for k, chunks in enumerate(control.chunks)]

    def _team_of(self, launch: int, chunks: int) -> NativeTeam:
        def address(name: str) -> int:
            return int(self.segment.array(name, np.uint8).ctypes.data)

        return NativeTeam(
            rank=self.member.rank,
            size=self.member.size,
            fd=self.segment.fd,
            epoch=0,
            timeout_ns=int(self.member.timeout_s * 1e9),
            chunks=chunks,
            ready=address(f"ready {launch}"),
            done=address(f"done {launch}"),
            cursor=address(f"cursor {launch}"),
            stop=address("stop"),
        )

    def run(self, launch: int, kernel: Callable[..., int], arguments: Iterable[object]) -> None:
        """One call of a generated kernel, made by all ranks alike; raises if a peer is lost."""
        native = self._native[launch]
        native.epoch = native.epoch % 0xFFFFFFFF + 1
        outcome = kernel(ctypes.byref(native), *arguments)
        if outcome != 0:
            reason = self._explain(outcome, native.epoch)
            self.stop()
            raise PeerError(reason)

    def stop(self) -> None:
        """Tell the peers that this rank will not come to the next step; the first one counts."""
        flag = self.segment.array("stop", np.uint32)
        if flag[0] == 0:
            flag[0] = 1 + self.member.rank

    def close(self) -> None:
        self.segment.close()

    def _explain(self, outcome: int, step: int) -> str:
        rank = self.member.rank
        if outcome == _TIMED_OUT:
            return (
                f"rank {rank} waited {self.member.timeout_s:g} s in fused step {step} for a peer "
                "that is alive but did not come; see whether all ranks call optimizer.step(), "
                "clip_grad_norm_ and average_gradients equally often, or raise timeout_s"
            )
        if outcome == _STOPPED:
            other = int(self.segment.array("stop", np.uint32)[0]) - 1
            return f"rank {other} left the fused step with an error; rank {rank} ended step {step}"
        return (
            f"rank {-1 - outcome} died; rank {rank} ended fused step {step} unfinished. "
            "Parameters may hold a mixture of old and new values: restart from a checkpoint"
        )
