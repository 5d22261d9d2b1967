"""A worker's side of aggregation in the switch: a round of arrays, chunk by chunk.

So many chunks are under way at once; each answer lets the next one go, so that workers send at the
rate at which the switch answers. What is not answered in time is sent again.
"""

import socket
import time
from collections import Counter, OrderedDict
from dataclasses import dataclass

import numpy as np

from paceline.wire.aggregate.rounds import Array, RoundRequest
from paceline.wire.errors import WireError
from paceline.wire.switch.aggregation import (
    OVERHEAD_BYTES,
    Chunk,
    ChunkPlace,
    Fault,
    Refused,
    packed,
    unpacked,
)

_LARGEST = 65_535


@dataclass(frozen=True)
class Member:
    """One worker of a job that a switch aggregates for."""

    job: int
    worker: int
    workers: int
    key: bytes


@dataclass(frozen=True)
class Pace:
    """How a member sends. A datagram of 1,432 bytes fills an Ethernet frame with its headers."""

    datagram_bytes: int = 1_432
    window: int = 64  # chunks under way
    again_s: float = 0.05  # what is not answered by then is sent again
    timeout_s: float = 30.0  # without any answer: the switch or a worker is lost


class SwitchClient:
    """`client(asked)` is the reduced array: what `aggregate.through` needs."""

    def __init__(
        self, made: socket.socket, switch: tuple[str, int], member: Member, pace: Pace = Pace()
    ) -> None:
        self.faults: Counter[Fault] = Counter()
        self.sent = self.repeated = 0
        self._socket, self._switch, self._member, self._pace = made, switch, member, pace
        self._round = 0

    def __call__(self, asked: RoundRequest) -> Array:
        self._round += 1
        flat = np.ascontiguousarray(asked.values).reshape(-1)
        step = max(1, (self._pace.datagram_bytes - OVERHEAD_BYTES) // flat.itemsize)
        count = -(-flat.size // step)
        result, waiting = np.empty_like(flat), OrderedDict[int, float]()
        next_chunk, heard = 0, time.monotonic()
        while next_chunk < count or waiting:
            while next_chunk < count and len(waiting) < self._pace.window:
                self._send(asked, next_chunk, flat[next_chunk * step :][:step], waiting)
                next_chunk += 1
            answer = self._answer(heard, waiting)
            if answer is None:
                self._repeat(asked, flat, step, waiting)
                continue
            heard = time.monotonic()
            if waiting.pop(answer.place.chunk, None) is not None:
                result[answer.place.chunk * step :][:step] = answer.values
        return result.reshape(asked.values.shape)

    def _send(
        self, asked: RoundRequest, chunk: int, values: Array, waiting: "OrderedDict[int, float]"
    ) -> None:
        member, place = self._member, ChunkPlace(self._member.job, self._round, chunk)
        made = Chunk(place, asked.op, member.worker, member.workers, values)
        self._socket.sendto(packed(made, member.key), self._switch)
        self.sent += 1
        waiting[chunk] = time.monotonic() + self._pace.again_s
        waiting.move_to_end(chunk)

    def _repeat(
        self, asked: RoundRequest, flat: Array, step: int, waiting: "OrderedDict[int, float]"
    ) -> None:
        now = time.monotonic()
        for chunk in [c for c, due in waiting.items() if due <= now]:
            self._send(asked, chunk, flat[chunk * step :][:step], waiting)
            self.repeated += 1

    def _answer(self, heard: float, waiting: "OrderedDict[int, float]") -> Chunk | None:
        """The next answer of this round; None where something has to be sent again."""
        while True:
            now = time.monotonic()
            if now - heard > self._pace.timeout_s:
                raise WireError(
                    f"the switch at {self._switch} has answered nothing for "
                    f"{self._pace.timeout_s:g} s in round {self._round}: it, or one of "
                    f"{self._member.workers} workers, is lost"
                )
            left = next(iter(waiting.values()), now) - now  # the oldest is first
            if left <= 0:
                return None
            self._socket.settimeout(left)
            try:
                datagram, sender = self._socket.recvfrom(_LARGEST)
                found = unpacked(datagram, self._member.job, self._member.key)
            except TimeoutError:
                return None
            except Refused as refused:
                self.faults[refused.fault] += 1
                continue
            if sender == self._switch and found.place.round == self._round:
                return found
