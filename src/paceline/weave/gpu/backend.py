"""The GPU back end: Triton kernels for a fused group, peers' buffers through symmetric memory.

Every rank's Replicated and Partial inputs lie in symmetric memory, whose addresses all ranks know;
a barrier on the device before and after the kernel keeps steps apart. Where there is no GPU, or
ranks are on several hosts, it says so and NCCL (the plain back end) is the baseline.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from paceline.weave import ops
from paceline.weave.backend import Backend, Buffers, Executable, Peers, Tunables
from paceline.weave.backends.torch_collectives import REDUCTIONS
from paceline.weave.backends.torch_compute import TORCH
from paceline.weave.cpu.phases import Phases
from paceline.weave.gpu.between import follow, joins, totals
from paceline.weave.gpu.generate import generate, phases_of
from paceline.weave.gpu.launch import Launcher, VectorSlice, loaded, on_host
from paceline.weave.host import HostSettings
from paceline.weave.layout import Sliced
from paceline.weave.program import Program
from paceline.weave.rules import WeaveError


class TritonBackend(Backend):
    """Programs that are one fused kernel on vectors."""

    name = "triton"
    shares_memory = True
    fuses = True

    def __init__(self, host: HostSettings) -> None:
        self._host = host

    def capabilities(self) -> str | None:
        if not torch.cuda.is_available():
            return "no GPU here: torch sees no CUDA device"
        return None if find_spec("triton") else "triton is not installed: pip install triton"

    def refusal(self, program: Program) -> str | None:
        launches = program.launches()
        groups = [x for x in launches if not all(s.type.is_scalar for s in x.body)]
        if len(groups) != 1 or not groups[0].is_fused:
            return f"{program.name} is {len(groups)} launches; fuse it into one kernel"
        try:
            generate(groups[0])
        except WeaveError as error:
            return str(error)
        return None

    def tunables(self, program: Program) -> tuple[Tunables, ...]:
        return tuple({"block": block} for block in (1024, 2048, 4096, 512))

    def compile(
        self, program: Program, peers: Peers, tunables: Tunables, buffers: Buffers | None = None
    ) -> "TritonExecutable":
        if reason := self.capabilities() or self.refusal(program):
            raise WeaveError(f"the triton back end cannot run {program.name}: {reason}")
        if buffers is not None:
            raise WeaveError("the triton back end holds inputs in symmetric memory; fill its own")
        block = int(tunables.get("block", 1024))
        return TritonExecutable(program, peers, block, self._host.cache)


class TritonExecutable(Executable):
    """The kernel on this rank's device, and its buffers."""

    def __init__(self, program: Program, peers: Peers, block: int, cache: Path) -> None:
        import torch.distributed._symmetric_memory as symmetric

        (group,) = program.groups
        process_group = peers.process_groups.get(group) or dist.group.WORLD
        self._group = next(x for x in program.launches() if x.is_fused)
        self._sources, self._form = generate(self._group), phases_of(self._group)
        self._kernels = [loaded(source, cache) for source in self._sources]
        self._numbers = on_host(program)
        index = peers.index(group) or 0
        size = max(s.type.size for s in self._group.body)
        segments = self._form.segments if self._form else (size,)
        self._launcher = Launcher(VectorSlice(index, group.size, segments, block), "cuda")
        self._process_group = process_group
        self._held: dict[str, Any] = {}
        self._tables: dict[str, Any] = {}
        self._barriers: list[Any] = []
        for source in program.inputs:
            if source.op == ops.Input(ops.Role.SCALAR):
                continue
            shape, dtype = source.type.local_shape(index), TORCH[source.type.dtype]
            if isinstance(source.type.layout, Sliced):
                self._held[source.name] = torch.zeros(shape, dtype=dtype, device="cuda")
                continue
            self._held[source.name] = symmetric.empty(shape, dtype=dtype, device="cuda").zero_()
            handle = symmetric.rendezvous(self._held[source.name], process_group)
            addresses = torch.tensor(handle.buffer_ptrs, dtype=torch.int64, device="cuda")
            self._tables[source.name] = addresses
            self._barriers.append(handle)

    @property
    def buffers(self) -> Buffers:
        return self._held

    def run(self, scalars: Mapping[str, float]) -> Buffers:
        self._barriers[0].barrier(channel=0)
        given = {f"{n}_peers": t for n, t in self._tables.items()}
        given |= {f"{n}_own": t for n, t in self._held.items()}
        known: dict[str, Any] = dict(self._numbers(scalars))
        for phase, (kernel, source) in enumerate(zip(self._kernels, self._sources)):
            tables = {f"{n}_table": known[n] for n in source.tables}
            parts = self._launcher.launch(kernel, source, {**given, **known, **tables})
            if self._form is not None and parts:
                known |= follow(self._form, phase, self._joined(self._form, phase, parts), known)
        self._barriers[0].barrier(channel=1)
        return {}

    def _joined(self, form: Phases, phase: int, parts: Mapping[str, Any]) -> dict[str, Any]:
        """The reductions' totals over blocks and ranks."""
        found = totals(form, phase, parts, self._launcher.segments)
        for name, join in joins(form, phase).items():
            dist.all_reduce(found[name], REDUCTIONS[join], group=self._process_group)
        return found

    def close(self) -> None:
        self._held, self._tables, self._barriers = {}, {}, []
