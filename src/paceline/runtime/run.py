"""`Run`: a handle on a live training job, through which strategies change it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from paceline.runtime.exchange import Exchange


@dataclass(frozen=True)
class Run:
    """What a strategy may change. It reads the model, and tells the exchange what it wants."""

    model: Any  # the outermost module
    optimizer: Any
    replicas: tuple[Any, ...] = ()  # DistributedDataParallel modules in it
    world_size: int = 1
    exchange: Exchange = field(default_factory=Exchange)
    names: Mapping[int, str] = field(default_factory=dict)
    """Of the trained tensors, by their `id`, as a recording's parameters are called."""
