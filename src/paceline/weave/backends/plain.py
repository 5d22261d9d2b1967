"""Plain torch.distributed: any program, statement by statement; always there, never the fastest.

Kernels are not fused and overlaps not overlapped; `compile` says so in the log.
"""

import logging
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist

from paceline.weave import ops
from paceline.weave.backend import Backend, Buffers, Executable, Peers, Tunables
from paceline.weave.backends.torch_collectives import Wire, communicate, device
from paceline.weave.backends.torch_compute import TORCH, local
from paceline.weave.compute import ComputeContext
from paceline.weave.host import HostSettings
from paceline.weave.program import Program, Statement
from paceline.weave.rules import WeaveError

log = logging.getLogger("paceline.weave")


class Plain(Backend):
    """Every op of the language, one torch call each."""

    name = "plain"

    def __init__(self, host: HostSettings) -> None:
        """It needs nothing of the host."""

    def capabilities(self) -> str | None:
        return None

    def refusal(self, program: Program) -> str | None:
        return None

    def tunables(self, program: Program) -> tuple[Tunables, ...]:
        return ({},)

    def compile(
        self, program: Program, peers: Peers, tunables: Tunables, buffers: Buffers | None = None
    ) -> "PlainExecutable":
        log.warning("%s runs on plain torch.distributed: nothing fused or overlapped", program.name)
        return PlainExecutable(program, peers, buffers)


class PlainExecutable(Executable):
    """A program's statements in order. Subclasses run some launches in their own way."""

    def __init__(self, program: Program, peers: Peers, buffers: Buffers | None = None) -> None:
        if not dist.is_initialized():
            raise WeaveError("torch.distributed is not initialised; call init_process_group first")
        self.program, self.peers = program, peers
        self._buffers = dict(buffers) if buffers is not None else self._allocate()
        self._check_buffers()
        self._values: dict[str, Any] = {}
        self._sending: list[tuple[Any, Any]] = []

    @property
    def buffers(self) -> Buffers:
        return self._buffers

    def run(self, scalars: Mapping[str, float]) -> Buffers:
        self._values = {**self._buffers, **self._numbers(scalars)}
        self.run_statements()
        for handle, _ in self._sending:
            handle.wait()
        self._sending = []
        returned = {n: self._owned(n) for n in self.program.returns if n in self._values}
        self._values = {}
        return returned

    def run_statements(self) -> None:
        for statement in self.program:
            self.step(statement)

    def close(self) -> None:
        self._values, self._buffers = {}, {}

    def step(self, statement: Statement) -> None:
        """Run one statement, where this worker has a part in it."""
        if isinstance(statement.op, ops.Input):
            return
        if isinstance(statement.op, ops.Send):
            self._send(statement)
            return
        index = self.index(statement)
        if index is not None:
            args = [self._values[a] for a in statement.args]
            self._values[statement.name] = self._result(statement, index, args)

    def index(self, statement: Statement) -> int | None:
        """This worker's place in the statement's group; constants are everyone's."""
        group = statement.type.group
        return 0 if group is None else self.peers.index(group)

    def value(self, name: str) -> Any:
        """This worker's part of a value that has been computed in this run."""
        return self._values[name]

    def put(self, name: str, value: Any) -> None:
        self._values[name] = value

    def wire(self, statement: Statement, index: int) -> Wire:
        before = self.program[statement.args[0]].type
        assert before.group is not None
        process_group = self.peers.process_groups.get(before.group)
        return Wire(before, statement.type, process_group, index)

    def _result(self, statement: Statement, index: int, args: list[Any]) -> Any:
        if isinstance(statement.op, ops.Update):
            return args[0].copy_(args[1])
        if isinstance(statement.op, ops.CollectiveOp):
            return communicate(statement.op, self.wire(statement, index), args[0])
        kinds = tuple(self.program[a].type for a in statement.args)
        value = local(statement.op, ComputeContext(statement.type, kinds, index), *args)
        return value.clone() if self._outlives(statement) else value

    def _outlives(self, statement: Statement) -> bool:
        """A Slice is a view; where it is read after its input's Update, it needs a copy."""
        if not isinstance(statement.op, ops.Slice | ops.Cast):
            return False
        stores = [u for u in self.program.updates if u.args[0] == statement.args[0]]
        readers = self.program.readers(statement.name)
        last = max((self.program.position(r.name) for r in readers), default=-1)
        return any(self.program.position(u.name) < last for u in stores)

    def _send(self, statement: Statement) -> None:
        """Rank i of the one group to rank i of the other, where this worker is either."""
        assert isinstance(statement.op, ops.Send)
        source = self.program[statement.args[0]].type
        assert source.group is not None
        here, there = self.peers.index(source.group), self.peers.index(statement.op.to)
        tag = self.program.position(statement.name)
        if here is not None:
            target = statement.op.to.ranks[here]
            payload = self._values[statement.args[0]].contiguous()
            if target == self.peers.rank:
                self._values[statement.name] = payload.clone()
            else:
                self._sending.append((dist.isend(payload, target, tag=tag), payload))
        if there is not None and statement.name not in self._values:
            shape = statement.type.local_shape(there)
            arrived = torch.empty(shape, dtype=TORCH[statement.type.dtype], device=device())
            dist.recv(arrived, source.group.ranks[there], tag=tag)
            self._values[statement.name] = arrived

    def _owned(self, name: str) -> Any:
        """A returned value that no later run changes."""
        views = isinstance(self.program[name].op, ops.Input | ops.Slice)
        return self._values[name].clone() if views else self._values[name]

    def _numbers(self, scalars: Mapping[str, float]) -> dict[str, Any]:
        wanted = {s.name: s for s in self.program.inputs if s.op == ops.Input(ops.Role.SCALAR)}
        if set(wanted) != set(scalars):
            raise WeaveError(
                f"{self.program.name} takes the numbers {sorted(wanted)}, got {sorted(scalars)}"
            )
        return {n: torch.tensor(v, dtype=TORCH[wanted[n].type.dtype]) for n, v in scalars.items()}

    def _held(self) -> list[tuple[Statement, tuple[int, ...]]]:
        """The inputs that this worker holds a part of, with the part's shape."""
        found = []
        for source in self.program.inputs:
            index = self.index(source)
            if source.op != ops.Input(ops.Role.SCALAR) and index is not None:
                found.append((source, source.type.local_shape(index)))
        return found

    def _allocate(self) -> dict[str, Any]:
        return {
            s.name: torch.zeros(n, dtype=TORCH[s.type.dtype], device=device())
            for s, n in self._held()
        }

    def _check_buffers(self) -> None:
        for source, shape in self._held():
            given = self._buffers.get(source.name)
            wanted = (TORCH[source.type.dtype], shape)
            if given is None or (given.dtype, tuple(given.shape)) != wanted:
                got = "nothing" if given is None else f"{given.dtype} {list(given.shape)}"
                raise WeaveError(
                    f"buffer {source.name}: got {got}, this worker holds {wanted[0]} {list(shape)}"
                )
