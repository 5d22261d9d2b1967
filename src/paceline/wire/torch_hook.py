"""A DDP communication hook: gradients become their mean over the transport.

with bounded_loss_hook(Carriage(Bounds(gradients=0.01))) as hook:
    replica.register_comm_hook(None, hook)
    train(replica)
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

from paceline.wire.torch_carrier import Carriage, carried


@contextmanager
def bounded_loss_hook(how: Carriage, group: Any = None) -> Iterator[Callable[[Any, Any], Any]]:
    """The hook, for as long as training lasts. All ranks of the group come here together."""
    parent = group if group is not None else dist.group.WORLD
    with carried(parent, how) as start:

        def hook(_: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
            gradient: torch.Tensor = bucket.buffer().div_(dist.get_world_size(parent))
            under = start(gradient, bucket)

            def result(done: Any) -> torch.Tensor:
                done.value()  # raises where the exchange failed
                return gradient

            return under.future.then(result)

        yield hook
