"""Messages among the workers of a pipeline, each known by where it passes and its micro-batch.

Receives are posted ahead of need, for gloo moves no byte before; sends never wait.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from paceline.runtime.exchange import Sent
from paceline.runtime.stages.errors import PipelineError


@dataclass(frozen=True)
class Message:
    """`edge` 0 leads into the first chunk of layers, the last edge out of the last one."""

    edge: int
    back: bool  # a gradient, against the way of what it belongs to
    microbatch: int


@dataclass(frozen=True)
class Look:
    """What a message will be."""

    shape: tuple[int, ...]
    dtype: torch.dtype


@dataclass
class Mail:
    """This worker's side; `places` are the pipeline's workers, by rank. Messages are told apart by
    tags: no more than `numbers` micro-batches of an edge may be on their way at once."""

    group: Any
    places: Sequence[int]
    me: int
    numbers: int
    sent: Sent
    _own: dict[Message, Tensor] = field(default_factory=dict)  # from this worker to itself
    _posted: dict[Message, tuple[Any, Tensor]] = field(default_factory=dict)
    _leaving: list[tuple[int, Any, Tensor]] = field(default_factory=list)

    def expect(self, message: Message, source: int, look: Look) -> None:
        """Room for what is to come, if it comes from elsewhere and has none yet."""
        if source == self.me or message in self._posted:
            return
        room = torch.empty(look.shape, dtype=look.dtype)
        work = _guarded(
            lambda: dist.irecv(room, self.places[source], self.group, self._tag(message))
        )
        self._posted[message] = work, room

    def take(self, message: Message, source: int, look: Look) -> Tensor:
        if source == self.me:
            return self._own.pop(message)
        self.expect(message, source, look)
        work, room = self._posted.pop(message)
        _guarded(work.wait)
        return room

    def send(self, message: Message, target: int, tensor: Tensor) -> None:
        if target == self.me:
            self._own[message] = tensor
            return
        whole = tensor.detach().contiguous()
        work = _guarded(
            lambda: dist.isend(whole, self.places[target], self.group, self._tag(message))
        )
        self._leaving.append((message.microbatch, work, whole))
        size = whole.numel() * whole.element_size()
        self.sent.call(size, size)

    def drain(self, before: int | None = None) -> None:
        """Wait until all that was sent has gone, or all of micro-batches before that one."""
        kept = []
        for each in self._leaving:
            if before is None or each[0] < before:
                _guarded(each[1].wait)
            else:
                kept.append(each)
        self._leaving = kept

    def _tag(self, message: Message) -> int:
        kind = 2 * message.edge + message.back
        return kind * self.numbers + message.microbatch % self.numbers


def _guarded(act: Any) -> Any:
    """torch reports a neighbour that ended as RuntimeError, and one whose message is of another
    size too."""
    try:
        return act()
    except RuntimeError as lost:
        raise PipelineError(
            "a worker of the pipeline has ended, or its batch had another size than this worker's; "
            f"look at its log for the cause, and give all workers equally many samples ({lost})"
        ) from lost
