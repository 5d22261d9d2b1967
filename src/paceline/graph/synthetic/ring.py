"""Data-parallel training over rings, in the shape of dPRO's global graph.

Per rank: forward and backward ops, then for every tensor one sync, 2(N-1) send and 2(N-1) receive
steps of a ring all-reduce in N chunks, and one update. 32 ranks make 211,200 ops.

Send step s waits for receive step s-1; receive step s for send step s of the rank before. A send
takes the link's time and is a TRANSFER; a receive adds the chunk to the tensor and is a COPY.
"""

from dataclasses import dataclass

import numpy as np

from paceline.errors import GraphError
from paceline.graph.border import UNSCALED
from paceline.graph.facts import Facts
from paceline.graph.folding import FoldedGraph
from paceline.graph.graph import (
    Bool,
    Dependencies,
    Device,
    Graph,
    Group,
    Int32,
    Int64,
    Lanes,
    OpColumns,
    UInt8,
)
from paceline.graph.kinds import (
    NONE,
    Axis,
    Collective,
    DepKind,
    Discipline,
    DType,
    LaneKind,
    OpKind,
    Phase,
)

_COMPUTE, _SYNC, _OUT, _IN = range(4)  # lanes of a rank
_LANES = ("compute", "coordinator", "link out", "link in")
_LANE_KINDS = (LaneKind.THREAD, LaneKind.COMM_THREAD, LaneKind.LINK_OUT, LaneKind.LINK_IN)
_NAMES = ("forward", "backward", "sync", "send", "receive", "update")
_FORWARD, _BACKWARD, _SYNCS, _SEND, _RECEIVE, _UPDATE = range(6)  # roles; `_NAMES` in this order
_ROLE = np.array(  # role -> lane, kind, phase, collective
    [
        (_COMPUTE, OpKind.COMPUTE, Phase.FORWARD, Collective.NONE),
        (_COMPUTE, OpKind.COMPUTE, Phase.BACKWARD, Collective.NONE),
        (_SYNC, OpKind.HOST, Phase.COMMUNICATION, Collective.NONE),
        (_OUT, OpKind.TRANSFER, Phase.COMMUNICATION, Collective.ALL_REDUCE),
        (_IN, OpKind.COPY, Phase.COMMUNICATION, Collective.ALL_REDUCE),
        (_COMPUTE, OpKind.COMPUTE, Phase.UPDATE, Collective.NONE),
    ],
    np.uint8,
)


@dataclass(frozen=True)
class Ring:
    """Settings of the job; the durations are round figures of a ResNet-50 on 10 Gbit/s."""

    ranks: int = 4
    layers: int = 150  # forward ops, and as many backward ops
    tensors: int = 50
    tensor_bytes: int = 2_000_000
    forward_ns: int = 200_000
    backward_ns: int = 400_000
    sync_ns: int = 20_000
    update_ns: int = 50_000
    link_bytes_per_s: int = 1_200_000_000
    link_latency_ns: int = 5_000
    add_bytes_per_s: int = 20_000_000_000
    jitter: float = 0.0  # relative standard deviation of durations, other on every rank
    seed: int = 0
    discipline: Discipline = Discipline.RECORDED

    def __post_init__(self) -> None:
        if self.ranks < 2 or not 1 <= self.tensors <= self.layers:
            raise GraphError(
                "a ring needs 2 ranks, 1 tensor, and a layer for every tensor at least; given are "
                f"{self.ranks} ranks, {self.tensors} tensors and {self.layers} layers"
            )

    @property
    def steps(self) -> int:
        """Ring steps of one all-reduce: scatter-reduce, then gather."""
        return 2 * (self.ranks - 1)


def ring(job: Ring) -> Graph:
    """The graph of one training step on all ranks."""
    part = _part(job)
    ops, ranks = len(part.role), np.arange(job.ranks, dtype=np.int64)
    first = (ranks * ops)[:, None]  # op 0 of each rank
    before = np.roll(first, 1)
    src = np.where(part.from_neighbour, before, first) + part.src
    return _graph(job, part, src.astype(np.int32), job.ranks)


def folded_ring(job: Ring) -> FoldedGraph:
    """The same job by one rank that stands for all: its neighbour's times are its own.

    Exact, since every rank has the same program and costs; the ranks need not be drawn one by one.
    """
    if job.jitter:
        raise GraphError("ranks with jitter differ and cannot be folded; set jitter to 0")
    part = _part(job)
    graph = _graph(job, part, part.src.astype(np.int32), 1)
    return FoldedGraph(graph, class_of_rank=np.zeros(job.ranks, np.int32), representatives=(0,))


@dataclass(frozen=True, eq=False)
class _Part:
    """One rank's ops, numbered from 0. Every op but the first waits for exactly one other."""

    role: UInt8
    layer: Int32
    tensor: Int32
    src: Int32  # of ops 1 onwards
    from_neighbour: Bool  # whether that is an op of the rank before


def _part(job: Ring) -> _Part:
    block = np.empty(2 + 2 * job.steps, np.uint8)  # of one tensor: sync, (send, receive)*, update
    block[0], block[-1], block[1:-1:2], block[2:-1:2] = _SYNCS, _UPDATE, _SEND, _RECEIVE
    compute = np.repeat(np.array([_FORWARD, _BACKWARD], np.uint8), job.layers)
    role = np.concatenate([compute, np.tile(block, job.tensors)])
    layers = np.arange(job.layers, dtype=np.int32)
    made_by = _backward_of(job)  # the backward op that makes each tensor's gradient
    layer_of = job.layers - 1 - made_by
    size = len(block)
    none = np.full(2 * job.layers, NONE, np.int32)
    src = np.arange(len(role) - 1, dtype=np.int32)  # each waits for the op before it, save the sync
    src[2 * job.layers - 1 :: size] = job.layers + made_by
    return _Part(
        role=role,
        layer=np.concatenate([layers, layers[::-1], np.repeat(layer_of, size)]),
        tensor=np.concatenate([none, np.repeat(np.arange(job.tensors, dtype=np.int32), size)]),
        src=src,
        from_neighbour=role[1:] == _RECEIVE,
    )


def _backward_of(job: Ring) -> Int32:
    """Tensors are numbered as their gradients come: spread evenly over the backward ops."""
    last = np.arange(1, job.tensors + 1, dtype=np.int64) * job.layers // job.tensors - 1
    return last.astype(np.int32)


def _graph(job: Ring, part: _Part, src: Int32, ranks: int) -> Graph:
    ops = len(part.role)
    ptr = np.arange(-1, ops * ranks, dtype=np.int64)  # one dependency an op, but for each first
    ptr -= np.concatenate([[-1], np.repeat(np.arange(ranks), ops)])
    return Graph(
        ops=_columns(job, part, ranks),
        deps=Dependencies(
            ptr,
            src.ravel(),
            np.tile(_dep_kinds(part), ranks),
            np.zeros(src.size, np.bool_),
        ),
        lanes=Lanes(
            np.repeat(np.arange(ranks, dtype=np.int32), 4),
            np.repeat(np.arange(ranks, dtype=np.int32), 4),
            np.tile(np.array(_LANE_KINDS, np.uint8), ranks),
            np.full(4 * ranks, job.discipline, np.uint8),
            _LANES * ranks,
        ),
        devices=tuple(Device(f"rank {r}", host=r) for r in range(ranks)),
        groups=(Group("ring", tuple(range(job.ranks)), Axis.DATA),),
        names=_names(job),
        facts=Facts(world_size=job.ranks),
        meta={"source": "synthetic ring"},
    )


def _names(job: Ring) -> tuple[str, ...]:
    layers = tuple(f"layer {i}" for i in range(job.layers))
    return (*_NAMES, *layers, *(f"tensor {i}" for i in range(job.tensors)))


def _dep_kinds(part: _Part) -> UInt8:
    kinds = np.array([DepKind.DATA, DepKind.GRADIENT, DepKind.MESSAGE], np.uint8)
    role = part.role[1:]
    found: UInt8 = kinds[(role == _SYNCS) * 1 + (role == _RECEIVE) * 2]
    return found


def _columns(job: Ring, part: _Part, ranks: int) -> OpColumns:
    ops, role, moves = len(part.role), part.role, part.role >= _SEND
    lane, kind, phase, collective = _ROLE.T
    chunk = -(-job.tensor_bytes // job.ranks)
    sizes = np.array([0, 0, 0, chunk, chunk, job.tensor_bytes], np.int64)[role]
    first_lane = np.repeat(np.arange(ranks, dtype=np.int32) * 4, ops)
    total = ops * ranks
    return OpColumns(
        rank=first_lane // 4,
        lane=first_lane + np.tile(lane[role], ranks),
        kind=np.tile(kind[role], ranks),
        phase=np.tile(phase[role], ranks),
        dur_ns=_durations(job, role, ranks),
        size_bytes=np.tile(sizes, ranks),
        flops=np.zeros(total, np.int64),
        group=np.tile(np.where(moves & (role != _UPDATE), 0, NONE).astype(np.int32), ranks),
        instance=np.full(total, NONE, np.int32),
        collective=np.tile(collective[role], ranks),
        dtype=np.tile(np.where(moves, DType.FLOAT32, DType.NONE).astype(np.uint8), ranks),
        name=np.tile(role.astype(np.int32), ranks),
        layer=np.tile(len(_NAMES) + part.layer, ranks),
        tensor=np.tile(_tensor_names(job, part), ranks),
        priority=np.tile(_priorities(job, part), ranks),
        step=np.zeros(total, np.int32),
        basis=np.zeros(total, np.uint8),
        scale_ppb=np.full(total, UNSCALED, np.int64),
        work=np.full(total, NONE, np.int32),
    )


def _tensor_names(job: Ring, part: _Part) -> Int32:
    first = np.int32(len(_NAMES) + job.layers)
    return np.where(part.tensor == NONE, np.int32(NONE), first + part.tensor)


def _priorities(job: Ring, part: _Part) -> Int32:
    """Tensors of the layers that the next forward pass needs first go first."""
    return np.where(part.tensor == NONE, np.int32(0), np.int32(job.tensors) - part.tensor)


def _durations(job: Ring, role: UInt8, ranks: int) -> Int64:
    chunk = -(-job.tensor_bytes // job.ranks)
    send = job.link_latency_ns + chunk * 10**9 // job.link_bytes_per_s
    receive = chunk * 10**9 // job.add_bytes_per_s
    times = (job.forward_ns, job.backward_ns, job.sync_ns, send, receive, job.update_ns)
    dur = np.tile(np.array(times, np.int64)[role], ranks)
    if not job.jitter:
        return dur
    noise = np.random.default_rng(job.seed).standard_normal(len(dur))
    return np.maximum(0, np.rint(dur * (1 + job.jitter * noise))).astype(np.int64)
