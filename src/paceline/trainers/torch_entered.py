"""A plan, entered for the optimizer of a trainer: the model is found by its parameters."""

from contextlib import AbstractContextManager
from typing import Any

from paceline.record.torch_facts import root_modules
from paceline.runtime.exchange import Sent
from paceline.strategies.torch_applied import Given, applied


def entered(plan: Given, optimizer: Any, *, forced: bool = False) -> AbstractContextManager[Sent]:
    """As `paceline.applied`, where trainers hand out no model as it trains (wrapped by DDP)."""
    tensors = [tensor for group in optimizer.param_groups for tensor in group["params"]]
    return applied(plan, root_modules(tensors)[0], optimizer, forced=forced)
