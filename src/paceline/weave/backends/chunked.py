"""Across hosts: chunks of a product are summed over gloo while the next chunk is computed.

An overlapped pair (producer, collective) runs as: compute chunk i, start its asynchronous
collective, go on with chunk i + 1, and wait only for the last ones. Where the collective stands in
a kernel, the kernel's arithmetic runs by the same chunks. The rest runs plainly.
"""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist

from paceline.weave import ops
from paceline.weave.backend import Backend, Buffers, Executable, Peers, Tunables
from paceline.weave.backends import rows
from paceline.weave.backends.chunked_product import Chunking, ChunkTransport, overlapped_product
from paceline.weave.backends.message_queue import MessageQueue
from paceline.weave.backends.peer_link import connect
from paceline.weave.backends.plain import PlainExecutable
from paceline.weave.host import HostSettings
from paceline.weave.program import FusedGroup, Program, Statement
from paceline.weave.rules import WeaveError


class Chunked(Backend):
    """Overlaps of a MatMul with an AllReduce, or with a kernel that scatters and gathers."""

    name = "gloo"
    fuses = True  # kernels that are half of an overlap; others it refuses
    overlaps = True

    def __init__(self, host: HostSettings) -> None:
        self._host = host

    def capabilities(self) -> str | None:
        return None if dist.is_gloo_available() else "this torch was built without gloo"

    def refusal(self, program: Program) -> str | None:
        if not program.overlaps:
            return f"{program.name} overlaps nothing; use the plain back end"
        launches = {launch.name: launch for launch in program.launches()}
        for pair in program.overlaps:
            if reason := _unfit(launches[pair.producer], launches[pair.collective]):
                return reason
            if pair.dim != 0:
                return f"{pair.producer} is cut along dim {pair.dim}; only rows (dim 0) are chunked"
        paired = {pair.collective for pair in program.overlaps}
        alone = [name for name, x in launches.items() if x.is_fused and name not in paired]
        return f"{alone[0]} is a kernel that no product overlaps" if alone else None

    def tunables(self, program: Program) -> tuple[Tunables, ...]:
        return tuple(
            {"chunks": n, "taper": t, "link": True} for t in (0.75, 1.0) for n in (8, 4, 12)
        )

    def compile(
        self, program: Program, peers: Peers, tunables: Tunables, buffers: Buffers | None = None
    ) -> Executable:
        if reason := self.refusal(program):
            raise WeaveError(f"the gloo back end cannot run {program.name}: {reason}")
        return ChunkedExecutable(program, peers, buffers, ChunkSettings(tunables, self._host))


def _unfit(first: FusedGroup, second: FusedGroup) -> str | None:
    """Why two launches do not make a pair here."""
    if first.is_fused or not isinstance(first.body[0].op, ops.MatMul):
        return f"{first.name} is not a single MatMul"
    readers = first.program.readers(first.name)
    if first.outputs != (first.name,) or any(r.name not in second.members for r in readers):
        return f"{first.name} has readers besides {second.name}"
    if second.is_fused:
        return rows.refusal(second)
    if not isinstance(second.body[0].op, ops.AllReduce):
        return f"{second.name} is neither a kernel nor an AllReduce"
    return None


@dataclass(frozen=True)
class ChunkSettings:
    """How chunks are cut, and the host that they leave from."""

    tunables: Tunables
    host: HostSettings


class ChunkedExecutable(PlainExecutable):
    """Overlapped pairs by chunks, everything else as written. One run at a time."""

    def __init__(
        self, program: Program, peers: Peers, buffers: Buffers | None, settings: ChunkSettings
    ) -> None:
        super().__init__(program, peers, buffers)
        launches = {launch.name: launch for launch in program.launches()}
        self._pairs = {o.producer: (o.chunks, launches[o.collective]) for o in program.overlaps}
        self._second = {m for o in program.overlaps for m in launches[o.collective].members}
        self._tunables, self._host = settings.tunables, settings.host
        self._transports = {n: self._transport(second) for n, (_, second) in self._pairs.items()}

    def close(self) -> None:
        super().close()
        for transport in self._transports.values():
            if transport.link is not None:
                transport.link.close()

    def _transport(self, second: FusedGroup) -> ChunkTransport:
        """Two ranks get a link of their own, unless it is turned off; a lone AllReduce only where
        it adds."""
        wire = self.wire(second.collectives[0], 0)
        reduction = dist.ReduceOp.SUM if second.is_fused else wire.reduction
        pair = self.peers.index(wire.group) is not None and wire.group.size == 2
        wanted = pair and reduction == dist.ReduceOp.SUM and self._tunables.get("link", True)
        return ChunkTransport(
            wire.process_group,
            reduction,
            connect(wire.process_group, self._host) if wanted else None,
        )

    def run_statements(self) -> None:
        for statement in self.program:
            if statement.name in self._pairs:
                self._overlap(statement, *self._pairs[statement.name])
            elif statement.name not in self._second:
                self.step(statement)

    def _overlap(self, product: Statement, chunks: int, second: FusedGroup) -> None:
        index = self.index(product)
        if index is None:
            return
        chunks = int(self._tunables.get("chunks", chunks))
        cut = Chunking(chunks, float(self._tunables.get("taper", 1.0)))
        left, right = (self.value(a) for a in product.args)
        transport = self._transports[product.name]
        if second.is_fused:
            self._beside_kernel(product, second, (left, right), cut)
        else:
            self.put(second.name, overlapped_product(left, right, transport, cut))

    def _beside_kernel(
        self, product: Statement, second: FusedGroup, operands: tuple[Any, Any], cut: Chunking
    ) -> None:
        transport, index = self._transports[product.name], self.index(product)
        assert index is not None
        queue = None if transport.link is None else MessageQueue(transport.link)
        kernel = rows.RowKernel(product, second, rows.RowWorker(index, transport.group, queue))
        borders = cut.borders(operands[0].shape[0])
        with transport.link or nullcontext():
            for name, value in kernel.run(operands, self._given(second), borders).items():
                self.put(name, value)

    def _given(self, kernel: FusedGroup) -> dict[str, Any]:
        """What the kernel reads besides the product; constants may stand after it."""
        for statement in kernel.inputs:
            if isinstance(statement.op, ops.Const):
                self.step(statement)
        wanted = [s.name for s in kernel.inputs if s.name not in self._pairs]
        return {name: self.value(name) for name in wanted}
