"""`Workload`: one training of the suite, and the contract that each of them keeps.

A workload's file makes a `Training` from a `Setup`; the rest is told, so that lists, sweeps and
reports need not know any workload by name.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any


class Domain(Enum):
    """What is learnt: TBD's six domains, and four more."""

    IMAGES = "image classification"
    TRANSLATION = "translation"
    SPEECH = "speech recognition"
    DETECTION = "object detection"
    ADVERSARIAL = "adversarial networks"
    REINFORCEMENT = "reinforcement learning"
    RECOMMENDATION = "recommendation"
    LANGUAGE = "language model"
    GRAPHS = "graphs"
    SPIKING = "spiking networks"


class Spread(Enum):
    """How a workload uses many workers."""

    DATA = "data-parallel"
    TABLES = "embedding tables cut among workers, all-to-all; the rest data-parallel"
    EXPERTS = "experts cut among workers, all-to-all; the rest data-parallel"
    NODES = "nodes cut among workers, all-gather; weights data-parallel"


@dataclass(frozen=True)
class Quality:
    """When a training is good enough."""

    metric: str
    target: float
    at_least: bool = True  # else at most

    def reached(self, value: float) -> bool:
        return value >= self.target if self.at_least else value <= self.target


@dataclass(frozen=True)
class Pace:
    """How much is trained."""

    batch: int  # samples of a worker's step, where nothing else is asked for
    batches: tuple[int, ...]  # those that a sweep tries
    steps: int  # after which a training that has not reached its target has failed
    every: int  # steps from one look at the quality to the next


@dataclass(frozen=True)
class Setup:
    """One worker's part of a training."""

    batch: int
    rank: int = 0
    workers: int = 1
    seed: int = 1
    samples: int = 0  # at most in the training data; 0: all that the workload has
    data: Path | None = None  # a folder that holds `fashion-mnist`; None: Debian's, or made


@dataclass(frozen=True, eq=False)
class Training:
    """A training that is ready to go: torch's values, so `Any` where torch may be absent."""

    batches: Iterator[Any]  # without an end
    step: Callable[[Any], Any]  # trains on one batch; its loss
    score: Callable[[], float]  # the quality, on what is not trained on; all workers call it


@dataclass(frozen=True)
class Workload:
    """One training of the suite."""

    name: str  # that of its file
    domain: Domain
    model: str
    data: str
    quality: Quality
    pace: Pace
    build: Callable[[Setup], Training]
    spread: Spread = Spread.DATA
    needs: tuple[str, ...] = ()  # packages besides torch
