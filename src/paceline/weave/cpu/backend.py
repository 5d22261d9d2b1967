"""The CPU back end: programs of one host's ranks as one generated function over shared memory."""

from collections.abc import Mapping
from ctypes import CFUNCTYPE, POINTER, c_double, c_float, c_int32, c_int64
from ctypes import cast as as_pointer
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from paceline.weave.backend import Backend, Buffers, Executable, Peers, Tunables
from paceline.weave.cpu import compile as compiling
from paceline.weave.cpu.emit import Kernel, Slot, emit
from paceline.weave.cpu.emit import Tunables as Settings
from paceline.weave.cpu.phases import Phases
from paceline.weave.cpu.team import Membership, NativeTeam, Team
from paceline.weave.layout import Sliced, slice_bounds
from paceline.weave.program import Program
from paceline.weave.rules import WeaveError

if TYPE_CHECKING:
    import torch

_SIGNATURE = CFUNCTYPE(
    c_int32,
    POINTER(NativeTeam),
    POINTER(POINTER(c_float)),
    POINTER(c_double),
    POINTER(c_int64),
    POINTER(c_double),
    POINTER(c_double),
)
_CHUNKS = (16384, 4096, 65536)


class CpuBackend(Backend):
    """Fused programs for ranks that share a host's memory."""

    name = "cpu"

    def capabilities(self) -> str | None:
        if compiling.compiler() is None:
            return "no C++ compiler: install g++ or name one in CXX"
        return None

    def refusal(self, program: Program) -> str | None:
        try:
            Phases.of(program)
        except WeaveError as error:
            return str(error)
        return None

    def tunables(self, program: Program) -> tuple[Tunables, ...]:
        return tuple(
            {"chunk": chunk, "stream_peers": peers, "prefetch": 0}
            for chunk in _CHUNKS
            for peers in (True, False)
        )

    def compile(
        self, program: Program, peers: Peers, tunables: Tunables, buffers: Buffers | None = None
    ) -> "CpuExecutable":
        if buffers is not None:
            raise WeaveError(
                "the cpu back end keeps tensors in shared memory of its own; "
                "fill the buffers it returns instead of passing some"
            )
        form = Phases.of(program)
        kernel = emit(form, Settings.of(dict(tunables)))
        member = _membership(program, peers)
        return CpuExecutable(form, kernel, member, Settings.of(dict(tunables)).chunk)


class CpuExecutable(Executable):
    """A generated function, its library and the memory it works on."""

    def __init__(self, form: Phases, kernel: Kernel, member: Membership, chunk: int) -> None:
        self._form, self._kernel, self._member = form, kernel, member
        table = chunk_table(form.segments, chunk)
        regions = {f"tensor {s.first}": 4 * s.size * s.copies for s in kernel.slots}
        partials = {"partials": 8 * max(1, len(kernel.reductions)) * len(table)}
        self._function = _SIGNATURE(("run", compiling.load(kernel.source)))
        self._team = Team(member, {**partials, **regions}, len(table), kernel.phases)
        self._table = table
        self._numbers = np.zeros(max(1, len(kernel.numbers)))
        self._scalars = np.zeros(max(1, len(kernel.scalars)))
        self._pointers = self._all_pointers()

    @property
    def buffers(self) -> Buffers:
        inputs = {s.name for s in self._form.program.inputs}
        return {s.name: self._own(s) for s in self._kernel.slots if s.name in inputs}

    def run(self, scalars: Mapping[str, float]) -> Buffers:
        self._scalars[: len(self._kernel.scalars)] = [scalars[n] for n in self._kernel.scalars]
        self._team.run(self._function, self._arguments())
        inputs = {s.name for s in self._form.program.inputs}
        tensors = {s.name: self._own(s) for s in self._kernel.slots if s.name not in inputs}
        return {**tensors, **{n: float(x) for n, x in zip(self._kernel.numbers, self._numbers)}}

    def whole(self, name: str) -> "torch.Tensor":
        """A tensor as it lies in memory: this rank's copy, or the one that all ranks share."""
        return self._tensor(next(s for s in self._kernel.slots if s.name == name))

    def close(self) -> None:
        self._team.close()

    def abandon(self) -> None:
        """Leave so that the peers' next step fails at once instead of waiting."""
        self._team.stop()
        self._team.close()

    def _arguments(self) -> tuple[Any, ...]:
        return (
            self._pointers,
            self._scalars.ctypes.data_as(POINTER(c_double)),
            self._table.ctypes.data_as(POINTER(c_int64)),
            self._team.segment.array("partials", np.uint8).ctypes.data_as(POINTER(c_double)),
            self._numbers.ctypes.data_as(POINTER(c_double)),
        )

    def _all_pointers(self) -> Any:
        total = sum(s.copies for s in self._kernel.slots)
        array = (POINTER(c_float) * total)()
        for slot in self._kernel.slots:
            for copy in range(slot.copies):
                part = self._array(slot, copy)
                array[slot.first + copy] = part.ctypes.data_as(POINTER(c_float))
        return as_pointer(array, POINTER(POINTER(c_float)))

    def _array(self, slot: Slot, copy: int) -> NDArray[np.float32]:
        region = self._team.segment.array(f"tensor {slot.first}", np.float32)
        return region[copy * slot.size : (copy + 1) * slot.size]

    def _tensor(self, slot: Slot) -> "torch.Tensor":
        import torch

        copy = self._member.rank if slot.copies > 1 else 0
        shape = self._form.program[slot.name].type.shape
        return torch.from_numpy(self._array(slot, copy)).view(shape)

    def _own(self, slot: Slot) -> "torch.Tensor":
        """This rank's part: its copy, or its slice of what is shared."""
        kind, tensor = self._form.program[slot.name].type, self._tensor(slot)
        if not isinstance(kind.layout, Sliced):
            return tensor
        dim = kind.layout.dim
        start, end = slice_bounds(kind.shape[dim], self._member.size, self._member.rank)
        return tensor.narrow(dim, start, end - start)


def chunk_table(segments: tuple[int, ...], chunk: int) -> NDArray[np.int64]:
    """(first element, length, segment) of every chunk; no chunk spans two segments."""
    rows, first = [], 0
    for segment, length in enumerate(segments):
        rows += [
            (first + at, min(chunk, length - at), segment) for at in range(0, length, chunk)
        ]
        first += length
    return np.array(rows, np.int64).reshape(-1, 3)


def _membership(program: Program, peers: Peers) -> Membership:
    """This worker within the program's only group."""
    import torch.distributed as dist

    group = program.groups[0]
    index = peers.index(group)
    if index is None:
        raise WeaveError(f"rank {peers.rank} is not in {group}, which {program.name} runs on")
    process_group = peers.process_groups.get(group)

    def gather(value: Any) -> list[Any]:
        found: list[Any] = [None] * group.size
        dist.all_gather_object(found, value, group=process_group)
        return found

    return Membership(index, group.size, gather)
