"""Messages between neighbouring stages: activations down, gradients up.

A receive is posted one message ahead: gloo moves no byte before the receiver has posted, so that
without it no transfer would overlap with computation. Down and up have process groups of their own
because NCCL would otherwise serialise the two directions of a pair.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from paceline.runtime.stages.errors import PipelineError
from paceline.runtime.stages.torch_header import HEADER, described, header


@dataclass(frozen=True)
class Seat:
    """Which stage of which replica this process is; rank = replica x stages + stage."""

    rank: int
    stages: int
    replicas: int = 1

    def __post_init__(self) -> None:
        if self.stages * self.replicas < 1 or not 0 <= self.rank < self.stages * self.replicas:
            raise PipelineError(
                f"rank {self.rank} has no seat in {self.replicas} replicas of {self.stages} "
                f"stages; start {self.stages * self.replicas} workers"
            )

    @property
    def stage(self) -> int:
        return self.rank % self.stages

    @property
    def replica(self) -> int:
        return self.rank // self.stages

    @property
    def first(self) -> bool:
        return self.stage == 0

    @property
    def last(self) -> bool:
        return self.stage == self.stages - 1


@dataclass(frozen=True)
class Groups:
    """Process groups: activations down, gradients up, and the replicas of this stage."""

    down: Any
    up: Any
    replicas: Any


def groups(seat: Seat, timeout_s: float = 60.0) -> Groups:
    """Every worker of the job must call this, and at the same time."""
    world = seat.stages * seat.replicas
    if dist.get_world_size() != world:
        raise PipelineError(
            f"{seat.replicas} x {seat.stages} stages need {world} workers; "
            f"started are {dist.get_world_size()}"
        )
    wait = timedelta(seconds=timeout_s)
    down, up = dist.new_group(timeout=wait), dist.new_group(timeout=wait)
    across = [
        dist.new_group(list(range(stage, world, seat.stages)), timeout=wait)
        for stage in range(seat.stages)
    ]
    return Groups(down, up, across[seat.stage])


class Outbox:
    """Sends to one neighbour; the message under way is kept until the next one is sent.

    A stage sends at most two messages that its neighbour has not taken, and by the schedules'
    orders the neighbour then never waits for this stage: no cycle of sends can block.
    """

    def __init__(self, peer: int, group: Any) -> None:
        self._peer, self._group = peer, group
        self._under_way: tuple[Any, Tensor] | None = None
        self._announced: list[int] | None = None

    def send(self, message: Tensor, *, announce: bool = False) -> None:
        message = message.contiguous()
        if announce:
            self._announce(message)
        self.drain()
        work = _guarded(self._peer, lambda: dist.isend(message, self._peer, self._group))
        self._under_way = (work, message)

    def drain(self) -> None:
        """Wait until the message under way has gone."""
        if self._under_way is not None:
            _guarded(self._peer, self._under_way[0].wait)
            self._under_way = None

    def _announce(self, message: Tensor) -> None:
        """The first message is described; the others must look the same."""
        told = header(message)
        if self._announced is None:
            self._announced = told
            _guarded(self._peer, lambda: dist.send(_whole(told, message), self._peer, self._group))
        elif told != self._announced:
            raise PipelineError(
                f"a micro-batch's activation has the shape {tuple(message.shape)}, the first had "
                f"{tuple(self._announced[2 : 2 + self._announced[1]])}; give micro-batches of "
                "one size"
            )


class Inbox:
    """Receives from one neighbour, a message ahead of need."""

    def __init__(self, peer: int, group: Any) -> None:
        self._peer, self._group = peer, group
        self._like: tuple[torch.Size, torch.dtype, torch.device] | None = None
        self._posted: tuple[Any, Tensor] | None = None
        self._left = 0

    def expect(self, count: int) -> None:
        """So many messages are to come."""
        self._left = count

    def learn(self, like: Tensor) -> None:
        """Messages look like this."""
        if self._like is None:
            self._like = (like.shape, like.dtype, like.device)
        self._post()

    def take(self, device: torch.device) -> Tensor:
        """The next message."""
        if self._like is None:
            self.learn(self._described(device))
        self._post()
        assert self._posted is not None, "no message is expected"
        work, message = self._posted
        _guarded(self._peer, work.wait)
        self._posted = None
        self._post()
        return message

    def _post(self) -> None:
        if self._posted is None and self._left and self._like is not None:
            shape, dtype, device = self._like
            message = torch.empty(shape, dtype=dtype, device=device)
            work = _guarded(self._peer, lambda: dist.irecv(message, self._peer, self._group))
            self._posted, self._left = (work, message), self._left - 1

    def _described(self, device: torch.device) -> Tensor:
        told = torch.empty(HEADER, dtype=torch.int64, device=device)
        _guarded(self._peer, lambda: dist.recv(told, self._peer, self._group))
        return described(told)


def _whole(told: list[int], like: Tensor) -> Tensor:
    return torch.tensor(told, dtype=torch.int64, device=like.device)


def _guarded(peer: int, act: Any) -> Any:
    """torch reports a dead or silent neighbour as RuntimeError; say which neighbour it was."""
    try:
        return act()
    except RuntimeError as lost:
        raise PipelineError(
            f"lost the connection to rank {peer}: it has ended, or was silent beyond the "
            f"timeout. Look at its log for the cause, then resume from the last checkpoint ({lost})"
        ) from lost
