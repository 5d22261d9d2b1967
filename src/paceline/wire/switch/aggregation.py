"""Aggregation in the switch: datagrams of a round, and the state that makes one of many.

A worker's array is cut into chunks. The switch keeps each worker's chunk until all have come,
reduces them in workers' order and answers every worker. A chunk that comes twice is not added
twice: once the answer is known, whoever asks again is answered again. Datagrams carry a checksum
keyed per job, so that no stranger can write into a gradient.
"""

import hashlib
import struct
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from paceline.wire.aggregate.rounds import Array, SwitchOp, combine
from paceline.wire.errors import WireError

_HEAD = struct.Struct("<4sIIIIBBBB")
_MAGIC = b"PLAG"
_DIGEST_BYTES = 8
OVERHEAD_BYTES = _HEAD.size + _DIGEST_BYTES
TYPES = tuple(np.dtype(name) for name in ("float32", "int32", "int64", "uint8"))
KEPT_ROUNDS = 2
"""A worker that has the answers to round n has all of round n - 1; so has the switch no need of
what is older."""


class Fault(Enum):
    """Why a datagram was not used."""

    FOREIGN = "no datagram of ours, or of another job"
    FORGED = "its checksum is wrong"
    MALFORMED = "it says what cannot be"


@dataclass(frozen=True)
class ChunkPlace:
    """Which chunk of which round of which job."""

    job: int
    round: int
    chunk: int


@dataclass(frozen=True, eq=False)
class Chunk:
    place: ChunkPlace
    op: SwitchOp
    worker: int
    workers: int
    values: Array


class Refused(WireError):
    """A datagram that is not used; `fault` says why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.value)
        self.fault = fault


def packed(chunk: Chunk, key: bytes) -> bytes:
    at, kind = chunk.place, TYPES.index(chunk.values.dtype)
    head = _HEAD.pack(
        _MAGIC, at.job, at.round, at.chunk, chunk.values.size, chunk.op.value, kind, chunk.worker,
        chunk.workers,
    )  # fmt: skip
    body = head + chunk.values.tobytes()
    return body + _digest(body, key)


def unpacked(datagram: bytes, job: int, key: bytes) -> Chunk:
    """A checked chunk, or `Refused`."""
    if len(datagram) < OVERHEAD_BYTES or datagram[:4] != _MAGIC:
        raise Refused(Fault.FOREIGN)
    body, digest = datagram[:-_DIGEST_BYTES], datagram[-_DIGEST_BYTES:]
    _, found, turn, chunk, count, op, kind, worker, workers = _HEAD.unpack_from(body)
    if found != job:
        raise Refused(Fault.FOREIGN)
    if digest != _digest(body, key):
        raise Refused(Fault.FORGED)
    fits = kind < len(TYPES) and len(body) == _HEAD.size + count * TYPES[kind].itemsize
    if not fits or op >= len(SwitchOp) or worker >= workers:
        raise Refused(Fault.MALFORMED)
    values = np.frombuffer(body, TYPES[kind], count, _HEAD.size)
    return Chunk(ChunkPlace(job, turn, chunk), SwitchOp(op), worker, workers, values)


def _digest(body: bytes, key: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES, key=key).digest()


@dataclass
class _Open:
    """A chunk of which not all workers' parts have come."""

    first: Chunk
    parts: dict[int, Array] = field(default_factory=dict)


class Aggregator:
    """The switch's side, without sockets: a datagram in, datagrams for workers out."""

    def __init__(self, job: int, workers: int, key: bytes) -> None:
        if not 1 <= workers <= 255:
            raise WireError(f"{workers} workers; a switch aggregates for 1 to 255")
        self.faults: Counter[Fault] = Counter()
        self._job, self._workers, self._key = job, workers, key
        self._open: dict[ChunkPlace, _Open] = {}
        self._answers: dict[ChunkPlace, bytes] = {}
        self._round = 0

    def receive(self, datagram: bytes) -> list[tuple[int, bytes]]:
        """(worker, answer) of each worker to be answered now."""
        try:
            chunk = unpacked(datagram, self._job, self._key)
            return self._add(chunk)
        except Refused as refused:
            self.faults[refused.fault] += 1
            return []

    def _add(self, chunk: Chunk) -> list[tuple[int, bytes]]:
        place = chunk.place
        if place in self._answers:
            return [(chunk.worker, self._answers[place])]
        self._require(chunk)
        self._forget_before(place.round)
        held = self._open.setdefault(place, _Open(chunk))
        if (held.first.op, held.first.values.size, held.first.values.dtype) != (
            chunk.op, chunk.values.size, chunk.values.dtype,
        ):  # fmt: skip
            raise Refused(Fault.MALFORMED)
        held.parts[chunk.worker] = chunk.values
        if len(held.parts) < self._workers:
            return []
        answer = self._answers[place] = self._reduced(self._open.pop(place))
        return [(worker, answer) for worker in range(self._workers)]

    def _require(self, chunk: Chunk) -> None:
        old = chunk.place.round + KEPT_ROUNDS <= self._round
        if chunk.workers != self._workers or old or chunk.place.round > self._round + KEPT_ROUNDS:
            raise Refused(Fault.MALFORMED)

    def _forget_before(self, turn: int) -> None:
        if turn <= self._round:
            return
        self._round = turn
        self._open = {p: held for p, held in self._open.items() if p.round + KEPT_ROUNDS > turn}
        self._answers = {p: a for p, a in self._answers.items() if p.round + KEPT_ROUNDS > turn}

    def _reduced(self, held: _Open) -> bytes:
        first, *others = (held.parts[worker] for worker in range(self._workers))
        total = first.copy()
        for other in others:
            combine(held.first.op, total, other)
        answer = Chunk(held.first.place, held.first.op, 0, self._workers, total)
        return packed(answer, self._key)
