"""The transport under a torch process group: it meets over the group, then carries gradients.

`carried` is what strategies give to the exchange of a live job; `torch_hook` and `torch_backend`
stand on the same.
"""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from paceline.cost.collectives.volume import sent_share
from paceline.graph import Collective
from paceline.runtime.codecs.torch_communicate import Under
from paceline.runtime.torch_turns import in_turn
from paceline.wire.endpoint import Address, Endpoint, JobKey
from paceline.wire.errors import WireError
from paceline.wire.group import Bounds, Layers, WireGroup
from paceline.wire.importance import Importance
from paceline.wire.replicas import digest, prove_equal
from paceline.wire.settings import Tuning


@dataclass(frozen=True)
class Carriage:
    """How a job's gradients are to travel."""

    bounds: Bounds = field(default_factory=Bounds)
    tuning: Tuning = field(default_factory=Tuning)
    top: float = 0.1  # share of each layer's packets that must arrive; 0: none is told apart
    proven: bool = True  # that all ranks hold the same gradients, each step


@contextmanager
def meeting(parent: Any, how: Carriage) -> Iterator[WireGroup]:
    """A group of the transport over the same ranks. All of them come here together."""
    rank, count = dist.get_rank(parent), dist.get_world_size(parent)
    first = dist.get_global_rank(parent, 0)
    told: list[Any] = [JobKey.new() if rank == 0 else None]
    dist.broadcast_object_list(told, first, group=parent)
    with Endpoint(rank, told[0], Address(own_host(), 0), how.tuning) as endpoint:
        places: list[Any] = [None] * count
        dist.all_gather_object(places, endpoint.address, group=parent)
        endpoint.connect(dict(enumerate(places)))
        yield WireGroup(endpoint, range(count), how.bounds)


def own_host() -> str:
    """Our address on the way to the job's first rank."""
    master = os.environ.get("MASTER_ADDR", "127.0.0.1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((master, 9))
        return str(probe.getsockname()[0])


@contextmanager
def carried(parent: Any, how: Carriage) -> Iterator[Callable[[torch.Tensor, Any], Under]]:
    """A function that starts the sum of one bucket's payload over all ranks."""
    with meeting(parent, how) as group, in_turn() as submit:
        buckets = Buckets(group, how)

        def start(payload: torch.Tensor, bucket: Any) -> Under:
            size = payload.numel() * payload.element_size()
            count = len(group.ranks)
            ways = (Collective.PUSH, Collective.PULL)
            wire = sum(round(size * sent_share(way, count)) for way in ways)
            future = submit(buckets.reducing(payload, bucket))
            return Under(future, (payload,), 2 * size, wire, 2)

        yield start


@dataclass
class Buckets:
    """DDP's buckets, one after the other. Every rank has the same ones in the same order."""

    group: WireGroup
    how: Carriage
    step: int = 1
    digests: list[int] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)  # of each bucket, its parameters

    def reducing(self, payload: torch.Tensor, bucket: Any) -> Callable[[], None]:
        """Turns the payload into the sum; to be called in turn, off the training thread."""
        require_float32(payload)
        ends, last = _ends(bucket), bool(bucket.is_last())
        number, step = int(bucket.index()), self.step
        self.step += last
        layers = self._layers(number, ends)

        def reduce() -> None:
            values = payload.detach().view(-1).numpy()
            self.group.all_reduce(values, step=step, tensor=number, layers=layers)
            if not self.how.proven:
                return
            self.digests.append(digest([values]))
            if last:
                self._prove(step)

        return reduce

    def _layers(self, number: int, ends: tuple[int, ...]) -> Layers:
        """Each parameter is a layer. DDP's first bucket holds the last ones of the model."""
        self.counts[number] = len(ends)
        total = sum(self.counts.values())
        behind = sum(count for bucket, count in self.counts.items() if bucket < number)
        if self.how.top:
            known = self.group.importance
            seen = {} if known is None or known.layers != total else known.seen
            self.group.importance = Importance(total, self.how.top, seen)
        return Layers(total, ends, tuple(total - 1 - behind - n for n in range(len(ends))))

    def _prove(self, step: int) -> None:
        found = np.array(self.digests, np.uint64).view(np.float32)
        self.digests.clear()
        prove_equal(self.group, [found], step=step)


def require_float32(payload: torch.Tensor) -> None:
    if payload.dtype is not torch.float32 or payload.device.type != "cpu":
        raise WireError(
            f"the transport adds up float32 in host memory, and was given {payload.dtype} on "
            f"{payload.device}; leave bounded_loss out, or train in float32 on CPU"
        )


def _ends(bucket: Any) -> tuple[int, ...]:
    """Where each parameter's gradient ends in the bucket."""
    ends, at = [], 0
    for parameter in bucket.parameters():
        at += parameter.numel()
        ends.append(at)
    return tuple(ends)
