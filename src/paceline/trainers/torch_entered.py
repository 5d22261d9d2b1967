"""A plan, entered for the optimizer of a trainer: the model is found by its parameters."""

from contextlib import AbstractContextManager
from typing import Any

from paceline.runtime.exchange import Sent
from paceline.strategies.torch_applied import Given, applied, outermost


def entered(plan: Given, optimizer: Any, *, forced: bool = False) -> AbstractContextManager[Sent]:
    """As `paceline.applied`, where trainers hand out no model as it trains (wrapped by DDP)."""
    return applied(plan, outermost(optimizer), optimizer, forced=forced)
