"""What scripts do to a model that workers share out: one rank alone looks at it and saves it, and
later all load what was saved."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from copy import deepcopy
from typing import Any

import torch.distributed as dist


def checkpoints(
    made: Callable[[], Any], under: Callable[[Any], AbstractContextManager[Any]], steps: int
) -> dict[str, Any]:
    """`made` gives a worker's script, as the workers here write them; `under` puts one under a
    plan."""
    job, plain = made().train(1), made().train(1 + steps)
    first = dist.get_rank() == 0
    saved: list[Any] = [None]
    with under(job):
        job.train()
        looks = [(job.evaluated(), plain.evaluated()) for _ in range(2) if first]
        if first:
            saved[0] = deepcopy((job.model.state_dict(), job.optimizer.state_dict()))
        job.train(2)
        on = job.held
        dist.broadcast_object_list(saved)
        job.model.load_state_dict(saved[0][0])
        job.optimizer.load_state_dict(saved[0][1])
        back = job.held
    other = made()
    other.model.load_state_dict(saved[0][0])
    other.optimizer.load_state_dict(saved[0][1])
    told = {"looks": looks, "saved": other.held, "back": back, "plain": plain.held}
    return {**told, "on": on, "plain_on": plain.train(2).held}
