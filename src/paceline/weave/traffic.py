"""What a launch moves: bytes through memory, bytes over the wire, arithmetic; and what that costs.

Values inside a kernel never touch memory: a launch reads its inputs once and writes what leaves
it once. Wire bytes are those of the ring algorithms, sent by one rank.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from paceline.measure import Speeds
from paceline.weave import ops
from paceline.weave.layout import ITEM_BYTES, TensorType
from paceline.weave.program import FusedGroup, Program, Statement


@dataclass(frozen=True)
class Traffic:
    """Per rank, rounded up to the largest slice."""

    memory_bytes: int = 0
    wire_bytes: int = 0
    flops: int = 0
    messages: int = 0

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(
            self.memory_bytes + other.memory_bytes,
            self.wire_bytes + other.wire_bytes,
            self.flops + other.flops,
            self.messages + other.messages,
        )


@dataclass(frozen=True)
class Rates:
    """How fast a machine moves and computes. With `shared_memory` ranks read each other's memory
    and a fused kernel's collectives cost its memory bytes alone."""

    memory_bytes_per_s: float
    wire_bytes_per_s: float
    flops_per_s: float
    launch_s: float = 5e-6
    message_s: float = 50e-6
    shared_memory: bool = False

    @staticmethod
    def of(speeds: Speeds) -> "Rates":
        """Of a machine that was measured."""
        return Rates(
            speeds.memory_bytes_per_s,
            speeds.wire_bytes_per_s,
            speeds.flops_per_s,
            message_s=speeds.message_s,
        )

    def seconds(self, moved: Traffic) -> float:
        computing = moved.memory_bytes / self.memory_bytes_per_s + moved.flops / self.flops_per_s
        return self.launch_s + computing + self.wire_seconds(moved)

    def wire_seconds(self, moved: Traffic) -> float:
        rate = self.memory_bytes_per_s if self.shared_memory else self.wire_bytes_per_s
        return moved.wire_bytes / rate + moved.messages * self.message_s


def total_traffic(program: Program) -> Traffic:
    return sum((traffic(launch) for launch in program.launches()), Traffic())


def traffic(launch: FusedGroup) -> Traffic:
    """One launch on the rank with the most to do."""
    read = sum(_read_bytes(launch, s) for s in launch.inputs)
    kept = [launch.program[n] for n in launch.outputs]
    written = sum(local_bytes(s.type) for s in (*kept, *launch.updates))
    moved = Traffic(memory_bytes=read + written, flops=sum(_flops(launch, s) for s in launch.body))
    return sum((_wire(launch.program, s) for s in launch.collectives), moved)


def local_bytes(kind: TensorType) -> int:
    """Bytes of the largest part; constants are free."""
    if kind.group is None:
        return 0
    return _count(kind.local_shape(0)) * ITEM_BYTES[kind.dtype]


def _read_bytes(launch: FusedGroup, source: Statement) -> int:
    """An input that the body only slices is read in part."""
    uses = [s for s in launch.body if source.name in s.args and not _is_target(s, source.name)]
    if not uses:
        return 0
    if all(isinstance(s.op, ops.Slice) for s in uses):
        return max(local_bytes(s.type) for s in uses)
    return local_bytes(source.type)


def _is_target(statement: Statement, name: str) -> bool:
    return isinstance(statement.op, ops.Update) and statement.args[0] == name


def _flops(launch: FusedGroup, statement: Statement) -> int:
    if isinstance(statement.op, ops.MatMul):
        left = launch.program[statement.args[0]].type
        out = _count(statement.type.local_shape(0))
        return 2 * out * left.local_shape(0)[-1]
    if isinstance(statement.op, (*ops.POINTWISE, ops.Dropout)):
        return _count(statement.type.local_shape(0))
    if isinstance(statement.op, ops.Reduce):
        return _count(launch.program[statement.args[0]].type.local_shape(0))
    return 0


_SENT: dict[type[ops.WeaveOp], Callable[[int, int], tuple[int, int]]] = {
    ops.AllReduce: lambda n, r: (2 * (r - 1) * n // r, 2 * (r - 1)),
    ops.ReduceScatter: lambda n, r: ((r - 1) * n // r, r - 1),
    ops.AllGather: lambda n, r: ((r - 1) * n // r, r - 1),
    ops.AllToAll: lambda n, r: ((r - 1) * n // r**2, r - 1),
    ops.ReduceTo: lambda n, r: ((r - 1) * n // r, r - 1),
    ops.Broadcast: lambda n, r: ((r - 1) * n // r, r - 1),
}
"""(bytes sent by one rank, messages) for a global tensor of n bytes over r ranks."""


def _wire(program: Program, statement: Statement) -> Traffic:
    before = program[statement.args[0]].type
    if isinstance(statement.op, ops.Send):
        return Traffic(wire_bytes=local_bytes(before), messages=1)
    size = before.group.size if before.group else 1
    sent, messages = _SENT[type(statement.op)](before.size_bytes, size)
    return Traffic(wire_bytes=sent, messages=messages)


def _count(shape: Iterable[int]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count
