"""DDP's communication hook for codecs that share a bucket in several rounds (PowerSGD).

A round is made from the sum of the one before, so it cannot be handed over when the bucket is
ready. A thread of its own works through the buckets one after the other, beside the backward pass,
in a process group of its own: all ranks so call alike, whatever else the job communicates. Waiting
for a round on gloo's own threads, as torch's hook does, can leave none to serve it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from threading import Thread
from time import perf_counter_ns
from typing import Any

import torch
import torch.distributed as dist

from paceline.runtime.codecs import Codec, Iterative, Turn
from paceline.runtime.codecs.torch_communicate import share as start
from paceline.runtime.codecs.torch_memory import Key, Vectors
from paceline.runtime.codecs.turns import Turns
from paceline.runtime.exchange import Sent
from paceline.runtime.torch_turns import run_into

_PATIENCE_S = 10.0  # for a peer that is gone when the plan is left


@dataclass(frozen=True)
class PendingBucket:
    """A bucket's gradients, and the future that DDP waits for."""

    gradient: torch.Tensor
    key: Key
    turn: Turn
    future: Any


@contextmanager
def iterative_hook(codec: Codec, group: Any, share: float, sent: Sent) -> "Iterator[IterativeHook]":
    """The hook with its thread and its group, which end with the context."""
    own = _own_group(group)
    hook = IterativeHook(codec, own, share, sent)
    thread = Thread(target=hook.work, name="paceline iterations", daemon=True)
    thread.start()
    try:
        yield hook
    finally:
        hook.end()
        thread.join(_PATIENCE_S)
        dist.destroy_process_group(own)


class IterativeHook:
    """One bucket's gradients become their mean over all ranks."""

    def __init__(self, codec: Codec, group: Any, share: float, sent: Sent) -> None:
        assert isinstance(codec.compressor, Iterative)
        self._how, self._codec, self._group, self._sent = codec.compressor, codec, group, sent
        self._share, self._members = share, dist.get_world_size(group)
        self._left, self._turns = Vectors(), Turns()
        self._pending: SimpleQueue[PendingBucket | None] = SimpleQueue()

    def __call__(self, _: None, bucket: Any) -> Any:
        future: Any = torch.futures.Future()
        key = tuple(id(parameter) for parameter in bucket.parameters())
        self._pending.put(PendingBucket(bucket.buffer(), key, self._turns.next(bucket), future))
        if bucket.is_last():
            self._sent.stepped()
        return future

    def end(self) -> None:
        self._pending.put(None)

    def work(self) -> None:
        """Serve buckets until the end. What fails, fails in the backward pass that waits for it."""
        torch.set_grad_enabled(False)  # of this thread alone
        while (pending := self._pending.get()) is not None:
            run_into(pending.future, partial(self._exchange, pending))

    def _exchange(self, pending: PendingBucket) -> Any:
        """The bucket's gradients, once they are the mean of all ranks."""
        began, talked_ns = perf_counter_ns(), 0
        values, turn = self._corrected(pending), pending.turn
        payload: torch.Tensor | None = self._how.first(values, turn)
        round_ = 0
        while payload is not None:
            talked_ns += self._sum(payload)
            round_ += 1
            payload = self._how.next(values, turn, round_)
        self._how.restore(pending.gradient, turn)
        if self._codec.feedback:
            self._how.keep(values, pending.gradient, self._members, turn)
        self._sent.coded(perf_counter_ns() - began - talked_ns)
        return pending.gradient

    def _corrected(self, pending: PendingBucket) -> torch.Tensor:
        """The gradient's share of the mean, and what was left of earlier ones."""
        if not self._codec.feedback:
            return pending.gradient.mul(self._share)
        return self._left.of(pending.key, pending.gradient).add_(
            pending.gradient, alpha=self._share
        )

    def _sum(self, payload: torch.Tensor) -> int:
        """How long the call took."""
        began = perf_counter_ns()
        under = start(self._codec.sharing, payload, self._group)
        under.future.wait()
        self._sent.call(under.size_bytes, under.wire_bytes)
        return perf_counter_ns() - began


def _own_group(group: Any) -> Any:
    """A new group of the same ranks. Every rank of the job calls this at the same time, and each
    takes part in making every group."""
    mine = tuple(dist.get_process_group_ranks(group))
    told: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(told, mine)
    made = {ranks: dist.new_group(list(ranks)) for ranks in sorted(set(told))}
    return made[mine]
