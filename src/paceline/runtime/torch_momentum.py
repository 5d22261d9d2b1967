"""`taken_over`: an optimizer's momentum, while workers accumulate it themselves."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from paceline.runtime.codecs import Momentum
from paceline.runtime.exchange import ExchangeError


@contextmanager
def taken_over(optimizer: Any) -> Iterator[Momentum]:
    """The optimizer works without momentum until the context is left; checkpoints of it say what
    it has otherwise. Its own velocities are those of before, then."""
    found, groups = _momentum(optimizer), optimizer.param_groups
    before = [{name: group[name] for name in ("momentum", "nesterov")} for group in groups]

    def put_back(into: Any) -> None:
        for group, own in zip(into, before):
            group.update(own)

    told = optimizer.register_state_dict_post_hook(lambda _, kept: put_back(kept["param_groups"]))
    for group in groups:
        group.update(momentum=0.0, nesterov=False)
    try:
        yield found
    finally:
        told.remove()
        put_back(groups)


def _momentum(optimizer: Any) -> Momentum:
    if not isinstance(optimizer, torch.optim.SGD):
        raise ExchangeError(
            f"{type(optimizer).__name__} has no momentum that workers could accumulate before they "
            "compress: that is known of SGD alone. Leave momentum='after', or train with SGD"
        )
    found = {(g["momentum"], g["nesterov"], g["dampening"]) for g in optimizer.param_groups}
    if len(found) > 1 or next(iter(found))[2]:
        raise ExchangeError(
            "workers accumulate one momentum without dampening, and the optimizer's groups have "
            f"{sorted(found)} (momentum, nesterov, dampening); leave momentum='after'"
        )
    factor, nesterov, _ = next(iter(found))
    return Momentum(float(factor), bool(nesterov))
