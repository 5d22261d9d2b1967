"""A kernel by chunks of rows: its collectives run while the next rows are multiplied.

A chunk is a generator: it multiplies its rows, walks the kernel's body, and stops wherever it
would have to wait for a collective. Whenever a new chunk has been multiplied, each earlier one goes
on to its next stop, so every collective has the time of one product to finish. All ranks take the
same steps in the same order.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch

from paceline.weave import ops
from paceline.weave.backends.async_collectives import start_collective
from paceline.weave.backends.message_queue import MessageQueue
from paceline.weave.backends.torch_collectives import Wire
from paceline.weave.backends.torch_compute import TORCH, local
from paceline.weave.compute import ComputeContext
from paceline.weave.layout import Shape, TensorType
from paceline.weave.program import FusedGroup, Statement


def refusal(kernel: FusedGroup) -> str | None:
    """Why a kernel's body cannot run on some of the rows at a time."""
    rank = max(len(s.type.shape) for s in kernel.body)
    for statement in kernel.collectives:
        if len(statement.type.shape) < rank:
            return f"{statement.name} is not cut into rows; keep it out of the kernel"
    return None


@dataclass(frozen=True)
class RowWorker:
    """Where a kernel runs: this worker's index, and what carries its collectives."""

    index: int
    process_group: Any
    queue: MessageQueue | None = None


class RowKernel:
    """One product and the kernel that reads it."""

    def __init__(self, product: Statement, kernel: FusedGroup, worker: RowWorker) -> None:
        self._product, self._kernel, self._worker = product, kernel, worker
        self._rank = len(product.type.shape)

    def run(
        self, operands: tuple[Any, Any], given: Mapping[str, Any], borders: list[int]
    ) -> dict[str, Any]:
        """What the kernel leaves. `given`: its inputs; `borders`: first rows of chunks but the
        first."""
        left, right = operands
        rows = (0, *borders, left.shape[0])
        results = {n: self._room(self._kernel.program[n]) for n in self._kernel.outputs}
        running: list[Iterator[None]] = []
        for start, end in pairwise(rows):
            product = torch.matmul(left[start:end], right)
            chunk = _Chunk(start, end, self._rank, {self._product.name: product})
            running.append(self._chunk(chunk, given, results))
            running = [chunk for chunk in reversed(running) if _advanced(chunk)][::-1]
        while running:
            running = [chunk for chunk in running if _advanced(chunk)]
        if self._worker.queue is not None:
            self._worker.queue.flush()
        return results

    def _room(self, statement: Statement) -> Any:
        shape = statement.type.local_shape(self._worker.index)
        return torch.empty(shape, dtype=TORCH[statement.type.dtype])

    def _chunk(
        self, chunk: "_Chunk", given: Mapping[str, Any], results: Mapping[str, Any]
    ) -> Iterator[None]:
        program = self._kernel.program
        for statement in self._kernel.body:
            args = [chunk.read(program[a], given) for a in statement.args]
            kinds = tuple(chunk.type(program[a].type) for a in statement.args)
            kind = chunk.type(statement.type)
            if isinstance(statement.op, ops.CollectiveOp):
                wire = Wire(kinds[0], kind, self._worker.process_group, self._worker.index)
                wait = start_collective(statement.op, wire, args[0], self._worker.queue)
                yield
                chunk.values[statement.name] = wait()
            else:
                step = ComputeContext(
                    kind, kinds, self._worker.index, chunk.first(statement.type.shape)
                )
                chunk.values[statement.name] = local(statement.op, step, *args)
        for name, room in results.items():
            room[chunk.start : chunk.end] = chunk.values[name]


@dataclass(frozen=True)
class _Chunk:
    """Rows [start, end) of everything that has as many dims as the product."""

    start: int
    end: int
    rank: int
    values: dict[str, Any]

    def read(self, source: Statement, given: Mapping[str, Any]) -> Any:
        if source.name in self.values:
            return self.values[source.name]
        whole = given[source.name]
        return whole[self.start : self.end] if self._is_cut(source.type.shape) else whole

    def type(self, kind: TensorType) -> TensorType:
        if not self._is_cut(kind.shape):
            return kind
        return replace(kind, shape=(self.end - self.start, *kind.shape[1:]))

    def first(self, shape: Shape) -> int:
        """Row-major position of the chunk's first element in the whole tensor."""
        size = 1
        for extent in shape[1:]:
            size *= extent
        return self.start * size if self._is_cut(shape) else 0

    def _is_cut(self, shape: Shape) -> bool:
        return len(shape) == self.rank


def _advanced(chunk: Iterator[None]) -> bool:
    """Resume a chunk to its next stop; False at its end."""
    return next(chunk, _END) is not _END


_END = object()
