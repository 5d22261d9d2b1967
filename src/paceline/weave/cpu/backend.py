"""The CPU back end: programs of one host's ranks as one generated function over shared memory."""

from collections.abc import Mapping
from ctypes import CDLL, CFUNCTYPE, POINTER, c_double, c_float, c_int32, c_int64
from ctypes import cast as as_pointer
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from paceline.graph import DType
from paceline.weave.backend import Backend, Buffers, Executable, Peers, Tunables
from paceline.weave.cpu import compile as compiling
from paceline.weave.cpu.emit import GeneratedKernel, LoopSettings, emit, library_source
from paceline.weave.cpu.phases import Phases
from paceline.weave.cpu.slots import Slot, launch_programs, place
from paceline.weave.cpu.team import Control, Membership, NativeTeam, Team
from paceline.weave.host import HostSettings
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
_EDITS: tuple[tuple[str, int | bool], ...] = (
    ("chunk", 4096),
    ("chunk", 65536),
    ("stream_peers", False),
    ("stream_own", True),
    ("peers_first", True),
    ("prefetch", 128),
    ("unroll", 2),
    ("unroll", 4),
)


class CpuBackend(Backend):
    """Fused programs for ranks that share a host's memory."""

    name = "cpu"
    shares_memory = True
    fuses = True

    def __init__(self, host: HostSettings, timeout_s: float = 60.0) -> None:
        self._host, self._timeout_s = host, timeout_s

    def capabilities(self) -> str | None:
        if compiling.compiler(self._host) is None:
            return "no C++ compiler: install g++ or name one in CXX"
        return None

    def refusal(self, program: Program) -> str | None:
        try:
            for part in launch_programs(program):
                Phases.of(part)
        except WeaveError as error:
            return str(error)
        return None

    def tunables(self, program: Program) -> tuple[Tunables, ...]:
        """The default, then one loop-level change at a time; evolution combines them."""
        default = asdict(LoopSettings())
        return (default, *({**default, name: value} for name, value in _EDITS))

    def compile(
        self, program: Program, peers: Peers, tunables: Tunables, buffers: Buffers | None = None
    ) -> "CpuExecutable":
        if buffers is not None:
            raise WeaveError(
                "the cpu back end keeps tensors in shared memory of its own; "
                "fill the buffers it returns instead of passing some"
            )
        return self.compile_all((program,), peers, tunables)

    def compile_all(
        self,
        programs: tuple[Program, ...],
        peers: Peers,
        tunables: Tunables,
        same: Mapping[str, str] | None = None,
    ) -> "CpuExecutable":
        """Several programs over one set of tensors: those of one name are one, and `same` names
        results that overwrite an input."""
        member = replace(
            _membership(programs[0], peers), timeout_s=self._timeout_s, host=self._host
        )
        return CpuExecutable(programs, member, LoopSettings.of(tunables), same or {})


class CpuExecutable(Executable):
    """Generated functions and the shared memory that they work on. `run` runs the first program,
    `launch` any of them."""

    def __init__(
        self,
        programs: tuple[Program, ...],
        member: Membership,
        tunables: LoopSettings,
        same: Mapping[str, str],
    ) -> None:
        parts = tuple(part for program in programs for part in launch_programs(program))
        forms = tuple(Phases.of(part) for part in parts)
        self._program, self._member = programs[0], member
        self._slots = place(parts, member.size, same)
        kernels = [emit(f, self._slots, tunables, f"launch_{k}") for k, f in enumerate(forms)]
        library = _library(library_source(kernels), member)
        tables = [chunk_table(form.segments, tunables.chunk) for form in forms]
        regions = {f"tensor {s.first}": s.size_bytes for s in self._slots.values()}
        partials = max(len(k.reductions) * len(t) for k, t in zip(kernels, tables))
        self._team = Team(
            member,
            {"partials": 8 * max(1, partials), **regions},
            Control(tuple(len(t) for t in tables), tuple(k.phases for k in kernels)),
        )
        self._pointers = self._all_pointers()
        launches = iter(
            _Launch(_SIGNATURE((kernel.name, library)), kernel, table, index)
            for index, (kernel, table) in enumerate(zip(kernels, tables))
        )
        self._launches = {p.name: tuple(islice(launches, len(p.launches()))) for p in programs}

    @property
    def buffers(self) -> Buffers:
        return {s.name: self._own(s.name) for s in self._program.inputs if s.name in self._slots}

    def run(self, scalars: Mapping[str, float]) -> Buffers:
        numbers = self.launch(self._program.name, scalars)
        return {
            name: self._own(name) if name in self._slots else self._number(name, numbers)
            for name in self._program.returns
        }

    def launch(self, program: str, scalars: Mapping[str, float]) -> dict[str, float]:
        """One execution of the program of that name, with every peer; the numbers it computed
        beside those that it was given."""
        numbers = dict(scalars)
        for launch in self._launches[program]:
            numbers |= launch.run(self._team, self._pointers, numbers)
        return numbers

    def _number(self, name: str, numbers: Mapping[str, float]) -> "torch.Tensor":
        import torch

        wide = self._program[name].type.dtype is DType.FLOAT64
        return torch.tensor(numbers[name], dtype=torch.float64 if wide else torch.float32)

    def whole(self, name: str) -> "torch.Tensor":
        """A tensor as it lies in memory: this rank's copy, or the one that all ranks share."""
        import torch

        slot = self._slots[name]
        copy = self._member.rank if slot.copies > 1 else 0
        return torch.from_numpy(self._array(slot, copy)).view(self._program[name].type.shape)

    def close(self) -> None:
        self._team.close()

    def abandon(self) -> None:
        """Leave so that the peers' next step fails at once instead of waiting."""
        self._team.stop()
        self._team.close()

    def _own(self, name: str) -> "torch.Tensor":
        """This rank's part: its copy, or its slice of what is shared."""
        kind, tensor = self._program[name].type, self.whole(name)
        if not isinstance(kind.layout, Sliced):
            return tensor
        dim = kind.layout.dim
        start, end = slice_bounds(kind.shape[dim], self._member.size, self._member.rank)
        return tensor.narrow(dim, start, end - start)

    def _array(self, slot: Slot, copy: int) -> NDArray[np.float32]:
        region = self._team.segment.array(f"tensor {slot.first}", np.float32)
        return region[copy * slot.stride : copy * slot.stride + slot.size]

    def _all_pointers(self) -> Any:
        distinct = {s.first: s for s in self._slots.values()}.values()
        array = (POINTER(c_float) * sum(s.copies for s in distinct))()
        for slot in distinct:
            for copy in range(slot.copies):
                part = self._array(slot, copy)
                array[slot.first + copy] = part.ctypes.data_as(POINTER(c_float))
        return as_pointer(array, POINTER(POINTER(c_float)))


@dataclass(frozen=True)
class _Launch:
    """One generated function with its table of chunks."""

    function: Any
    kernel: GeneratedKernel
    table: NDArray[np.int64]
    index: int

    def run(self, team: Team, pointers: Any, numbers: Mapping[str, float]) -> dict[str, float]:
        """Run with the peers; returns the numbers it computed."""
        given = np.array([numbers[n] for n in self.kernel.scalars] or [0], np.float64)
        found = np.zeros(max(1, len(self.kernel.numbers)))
        partials = team.segment.array("partials", np.uint8)
        arguments = (
            pointers,
            given.ctypes.data_as(POINTER(c_double)),
            self.table.ctypes.data_as(POINTER(c_int64)),
            partials.ctypes.data_as(POINTER(c_double)),
            found.ctypes.data_as(POINTER(c_double)),
        )
        team.run(self.index, self.function, arguments)
        return dict(zip(self.kernel.numbers, found.tolist()))


def chunk_table(segments: tuple[int, ...], chunk: int) -> NDArray[np.int64]:
    """(first element, length, segment) of every chunk; no chunk spans two segments."""
    rows, first = [], 0
    for segment, length in enumerate(segments):
        rows += [(first + at, min(chunk, length - at), segment) for at in range(0, length, chunk)]
        first += length
    return np.array(rows, np.int64).reshape(-1, 3)


def _library(source: str, member: Membership) -> CDLL:
    """Rank 0 compiles, the others then find the library in the cache; all succeed or all raise."""
    problem = ""
    for turn in (member.rank == 0, member.rank != 0):
        if turn:
            try:
                library = compiling.load(source, member.host)
            except compiling.CompileError as error:
                problem = str(error)
        problems = [text for text in member.gather(problem) if text]
        if problems:
            raise compiling.CompileError(problems[0])
    return library


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
