"""`Point`: what was measured of one workload at one batch size, on so many workers."""

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.analyse.efficiency import Efficiency
from paceline.analyse.observations import Observation
from paceline.analyse.structure import Structure
from paceline.analyse.usage import Usage


@dataclass(frozen=True)
class Key:
    """Which measurement it is."""

    workload: str
    batch: int  # samples of a worker in a step
    workers: int

    def __str__(self) -> str:
        return f"{self.workload}, batch {self.batch}, workers {self.workers}"


@dataclass(frozen=True)
class Point:
    key: Key
    usage: Usage
    efficiency: Efficiency | None
    structure: Structure | None
    observations: tuple[Observation, ...]

    @property
    def throughput(self) -> float:
        """Samples a second, of all workers."""
        return self.key.batch * self.key.workers * 1e9 / self.usage.step_ns

    @property
    def of_peak(self) -> float:
        """Share of the machine's measured peak that products use over the step; 0 unknown."""
        return self.efficiency.utilisation if self.efficiency else 0.0


@dataclass(frozen=True)
class Unfit:
    """A batch that did not get the memory it asked for, and the largest that does."""

    key: Key
    limit_bytes: int  # that a worker's training was given; 0: no limit but the machine's
    fits: int  # the largest batch found that fits, 0: none


@dataclass(frozen=True)
class Reached:
    """One training to its quality."""

    workload: str
    workers: int
    batch: int
    metric: str
    target: float
    quality: float
    reached: bool
    steps: int
    seconds: float


@dataclass(frozen=True)
class Report:
    """All of a sweep."""

    machine: str
    versions: dict[str, str]
    flops_per_s: dict[str, float]  # peaks of one worker, by type
    memory_bytes_per_s: float
    points: tuple[Point, ...]
    unfit: tuple[Unfit, ...] = ()
    reached: tuple[Reached, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()  # what could not be run, and why

    def of(self, workload: str) -> tuple[Point, ...]:
        """By workers, then by batch."""
        mine = (point for point in self.points if point.key.workload == workload)
        return tuple(sorted(mine, key=lambda point: (point.key.workers, point.key.batch)))

    @property
    def workloads(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(point.key.workload for point in self.points))


def curves(points: Sequence[Point]) -> list[tuple[Point, ...]]:
    """One workload's points by their number of workers, each from the smallest batch up."""
    counts = sorted({point.key.workers for point in points})
    return [
        tuple(sorted((p for p in points if p.key.workers == n), key=lambda p: p.key.batch))
        for n in counts
    ]
