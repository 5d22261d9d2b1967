"""`HolderMeans`: gradients of parts, reduced among the ranks that hold the same part.

Each goes as soon as it is ready, beside the backward pass, and all are waited for at its end,
before the script sees them. Under no_sync() they stay, and go with those of the next pass.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Variable

from paceline.runtime.codecs import Sharing
from paceline.runtime.codecs.torch_communicate import counted
from paceline.runtime.exchange import Sent


class HolderMeans:
    """Among the ranks of one group."""

    def __init__(self, replica: Any, group: Any, sent: Sent) -> None:
        self._replica, self._group, self._sent = replica, group, sent
        self._share = 1.0 / dist.get_world_size(group)
        self._under_way: list[Any] = []

    @contextmanager
    def of(self, parts: Sequence[Any]) -> Iterator[None]:
        with ExitStack() as stack:
            for part in parts:
                stack.callback(part.register_post_accumulate_grad_hook(self._ready).remove)
            yield

    def _ready(self, part: Any) -> None:
        if not self._replica.require_backward_grad_sync:
            return
        if not self._under_way:
            Variable._execution_engine.queue_callback(self._finish)
        with torch.no_grad():
            gradient: Tensor = part.grad.to_local().mul_(self._share)
        self._sent.call(*counted(Sharing.SUM, gradient, self._group))
        self._under_way.append(dist.all_reduce(gradient, group=self._group, async_op=True))

    def _finish(self) -> None:
        under_way, self._under_way = self._under_way, []
        for call in under_way:
            call.wait()
