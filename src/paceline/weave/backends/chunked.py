"""Across hosts: chunks of a product travel over gloo while the next chunk is computed.

An overlapped pair (producer, collective) runs as: compute chunk i, start its asynchronous
collective, go on with chunk i + 1, and wait only for the last ones. The rest runs plainly.
"""

import torch.distributed as dist

from paceline.weave import ops
from paceline.weave.backend import Backend, Buffers, Executable, Peers, Tunables
from paceline.weave.backends.plain import PlainExecutable
from paceline.weave.backends.travel import Chunking, overlapped_product
from paceline.weave.program import Overlap, Program, Statement
from paceline.weave.rules import WeaveError


class Chunked(Backend):
    """Overlaps of a MatMul, or of pointwise work, with an AllReduce."""

    name = "gloo"
    overlaps = True

    def capabilities(self) -> str | None:
        return None if dist.is_gloo_available() else "this torch was built without gloo"

    def refusal(self, program: Program) -> str | None:
        if not program.overlaps:
            return f"{program.name} overlaps nothing; use the plain back end"
        launches = {launch.name: launch for launch in program.launches()}
        for pair in program.overlaps:
            second, first = launches[pair.collective], launches[pair.producer]
            if second.is_fused or not isinstance(second.body[0].op, ops.AllReduce):
                return f"{pair.collective} is not a single AllReduce"
            if first.is_fused or not isinstance(first.body[0].op, ops.MatMul):
                return f"{pair.producer} is not a single MatMul"
            if pair.dim != 0:
                return f"{pair.producer} is cut along dim {pair.dim}; only rows (dim 0) travel"
            if first.outputs != (pair.producer,) or len(program.readers(pair.producer)) != 1:
                return f"{pair.producer} has readers besides {pair.collective}"
        return None

    def tunables(self, program: Program) -> tuple[Tunables, ...]:
        return tuple({"chunks": n, "taper": t} for t in (1.0, 0.75) for n in (8, 4, 12))

    def compile(
        self, program: Program, peers: Peers, tunables: Tunables, buffers: Buffers | None = None
    ) -> Executable:
        if reason := self.refusal(program):
            raise WeaveError(f"the gloo back end cannot run {program.name}: {reason}")
        return ChunkedExecutable(program, peers, buffers, tunables)


class ChunkedExecutable(PlainExecutable):
    """Overlapped pairs by chunks, everything else as written. One run at a time."""

    def __init__(
        self, program: Program, peers: Peers, buffers: Buffers | None, tunables: Tunables
    ) -> None:
        super().__init__(program, peers, buffers)
        self._pairs = {o.producer: o for o in program.overlaps}
        self._second = {o.collective for o in program.overlaps}
        self._tunables = tunables

    def run_statements(self) -> None:
        for statement in self.program:
            if statement.name in self._pairs:
                self._overlap(statement, self._pairs[statement.name])
            elif statement.name not in self._second:
                self.step(statement)

    def _overlap(self, product: Statement, pair: Overlap) -> None:
        collective = self.program[pair.collective]
        index = self.index(product)
        if index is None:
            return
        left, right = (self.value(a) for a in product.args)
        wire = self.wire(collective, index)
        chunks = int(self._tunables.get("chunks", pair.chunks))
        cut = Chunking(chunks, float(self._tunables.get("taper", 1.0)))
        self.put(
            collective.name,
            overlapped_product(left, right, wire.process_group, cut, reduction=wire.reduction),
        )
