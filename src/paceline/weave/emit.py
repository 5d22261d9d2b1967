"""A program as ops of a Paceline graph, so that replay predicts a step with it.

Each rank gets a lane that computes and a lane that communicates. A launch becomes a COMPUTE op
with its memory bytes and flops, and one COLLECTIVE (or SEND and RECV) op for each collective in
it; overlapped pairs become chunks. Durations are UNPRICED, for `cost.price` to find; with `Rates`
they are priced here, by bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from paceline.graph import (
    UNPRICED,
    Collective,
    Graph,
    GraphBuilder,
    LaneKind,
    OpKind,
    Phase,
)
from paceline.weave import ops
from paceline.weave.layout import Group
from paceline.weave.program import FusedGroup, Overlap, Program, Statement
from paceline.weave.traffic import Rates, Traffic, local_bytes, traffic

_COLLECTIVES = {
    ops.AllReduce: Collective.ALL_REDUCE,
    ops.ReduceScatter: Collective.REDUCE_SCATTER,
    ops.AllGather: Collective.ALL_GATHER,
    ops.AllToAll: Collective.ALL_TO_ALL,
    ops.ReduceTo: Collective.REDUCE,
    ops.Broadcast: Collective.BROADCAST,
    ops.Send: Collective.POINT_TO_POINT,
}


@dataclass(frozen=True)
class Lanes:
    """A rank's two queues in the builder."""

    compute: int
    communicate: int


@dataclass(frozen=True)
class Site:
    """Where a program goes in a graph: the ranks' lanes, what each rank's part waits for (by
    input name, or "" for all of it), the phase and step, and how to price."""

    lanes: Mapping[int, Lanes]
    after: Mapping[tuple[int, str], int] = field(default_factory=dict)
    phase: Phase = Phase.UPDATE
    step: int = 0
    rates: Rates | None = None


def as_graph(program: Program, rates: Rates | None = None) -> Graph:
    """The program alone, as one step."""
    builder = GraphBuilder(meta={"world_size": len(program.world), "source": program.name})
    lanes = {rank: _lanes(builder, rank) for rank in program.world}
    emit(program, builder, Site(lanes, rates=rates))
    return builder.build()


def emit(program: Program, builder: GraphBuilder, site: Site) -> dict[tuple[int, str], int]:
    """Append the program's ops; returns, by (rank, launch), the op that ends each launch."""
    return _Emitter(program, builder, site).run()


def _lanes(builder: GraphBuilder, rank: int) -> Lanes:
    compute = builder.lane(rank, "compute")
    return Lanes(compute, builder.lane(rank, "communicate", kind=LaneKind.COMM_THREAD))


class _Emitter:
    def __init__(self, program: Program, builder: GraphBuilder, site: Site) -> None:
        self._program, self._builder, self._site = program, builder, site
        self._groups = {g: builder.group(g.name, g.ranks) for g in program.groups}
        self._ends: dict[tuple[int, str], int] = {}  # (rank, statement) -> op after which it is
        self._launches: dict[tuple[int, str], int] = {}

    def run(self) -> dict[tuple[int, str], int]:
        pairs = {o.producer: o for o in self._program.overlaps}
        second = {o.collective for o in self._program.overlaps}
        launches = {launch.name: launch for launch in self._program.launches()}
        for name, launch in launches.items():
            if name in pairs:
                self._pair(launch, launches[pairs[name].collective], pairs[name])
            elif name not in second:
                self._launch(launch, 1, {})
        return self._launches

    def _pair(self, first: FusedGroup, second: FusedGroup, pair: Overlap) -> None:
        """Chunk i of the collective waits for chunk i of the producer only."""
        for _ in range(pair.chunks):
            ends = self._launch(first, pair.chunks, {})
            self._launch(second, pair.chunks, ends)

    def _launch(self, launch: FusedGroup, share: int, waits: dict[int, int]) -> dict[int, int]:
        """Collectives that bring data in, the computation, collectives that take it out; `share`
        is how many such chunks make the whole. Returns each rank's last op."""
        moved, ends = traffic(launch), dict(waits)
        before = [c for c in launch.collectives if not self._leaves(c)]
        computes = len(before) < len(launch.body)
        for statement in before:
            ends = self._collective(launch, statement, share, ends)
        if computes:
            ends = self._compute(launch, moved, share, ends)
        for statement in launch.collectives:
            if self._leaves(statement):
                ends = self._collective(launch, statement, share, ends)
        for rank, op in ends.items():
            self._launches[rank, launch.name] = op
            for member in launch.members:
                self._ends[rank, member] = op
        return ends

    def _leaves(self, statement: Statement) -> bool:
        return isinstance(statement.op, ops.AllGather | ops.Send)

    def _compute(
        self, launch: FusedGroup, moved: Traffic, share: int, ends: dict[int, int]
    ) -> dict[int, int]:
        part = Traffic(moved.memory_bytes // share, 0, moved.flops // share)
        rates = self._site.rates
        found = dict(ends)
        for rank in self._ranks(launch.body[0]):
            found[rank] = self._builder.op(
                launch.name,
                self._site.lanes[rank].compute,
                UNPRICED if rates is None else round(1e9 * rates.seconds(part)),
                after=self._waits(launch, rank, ends),
                phase=self._site.phase,
                size_bytes=part.memory_bytes,
                flops=part.flops,
                step=self._site.step,
            )
        return found

    def _collective(
        self, launch: FusedGroup, statement: Statement, share: int, ends: dict[int, int]
    ) -> dict[int, int]:
        source = self._program[statement.args[0]].type
        assert source.group is not None
        if isinstance(statement.op, ops.Send):
            return self._message(launch, statement, source.group, ends)
        instance, found = self._builder.instance(), dict(ends)
        for rank in source.group.ranks:
            found[rank] = self._builder.op(
                statement.name,
                self._site.lanes[rank].communicate,
                self._wire_ns(launch, statement, share),
                after=self._waits(launch, rank, ends),
                kind=OpKind.COLLECTIVE,
                collective=_COLLECTIVES[type(statement.op)],
                phase=Phase.COMMUNICATION,
                dtype=source.dtype,
                size_bytes=source.size_bytes // share,
                group=self._groups[source.group],
                instance=instance,
                step=self._site.step,
            )
        return found

    def _message(
        self, launch: FusedGroup, statement: Statement, here: Group, ends: dict[int, int]
    ) -> dict[int, int]:
        """A SEND on rank i of the one group, a RECV on rank i of the other."""
        assert isinstance(statement.op, ops.Send)
        found = dict(ends)
        for sender, receiver in zip(here.ranks, statement.op.to.ranks):
            instance = self._builder.instance()
            pair = self._builder.group(f"{sender} to {receiver}", (sender, receiver))
            for rank, kind in ((sender, OpKind.SEND), (receiver, OpKind.RECV)):
                found[rank] = self._builder.op(
                    statement.name,
                    self._site.lanes[rank].communicate,
                    self._wire_ns(launch, statement, 1),
                    after=self._waits(launch, rank, ends) if kind is OpKind.SEND else (),
                    kind=kind,
                    collective=Collective.POINT_TO_POINT,
                    phase=Phase.COMMUNICATION,
                    dtype=statement.type.dtype,
                    size_bytes=local_bytes(statement.type),
                    group=pair,
                    instance=instance,
                    step=self._site.step,
                )
        return found

    def _wire_ns(self, launch: FusedGroup, statement: Statement, share: int) -> int:
        """In shared memory a kernel's own loads and stores are its collectives' bytes."""
        rates = self._site.rates
        if rates is None:
            return UNPRICED
        moved = traffic(FusedGroup(self._program, statement.name, (statement.name,)))
        wire_bytes = 0 if rates.shared_memory and launch.is_fused else moved.wire_bytes
        part = Traffic(0, wire_bytes // share, 0, moved.messages)
        return round(1e9 * rates.wire_seconds(part))

    def _waits(self, launch: FusedGroup, rank: int, ends: dict[int, int]) -> list[int]:
        """The ops that must have ended on this rank before a part of the launch starts."""
        found = {self._ends.get((rank, s.name)) for s in launch.inputs}
        found |= {self._site.after.get((rank, s.name)) for s in launch.inputs}
        found |= {self._site.after.get((rank, "")), ends.get(rank)}
        return sorted(op for op in found if op is not None)

    def _ranks(self, statement: Statement) -> tuple[int, ...]:
        group = statement.type.group
        return self._program.world if group is None else group.ranks
