"""`Sweep`: what is to be measured, and where it is kept."""

import math
import time
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

from paceline.bench.catalogue import chosen, named
from paceline.bench.kept import Setting
from paceline.bench.own import checked, named_after
from paceline.bench.point import Key
from paceline.machine import this_machine


@dataclass(frozen=True)
class Sweep:
    """Workloads, batches and workers, and with what."""

    folder: Path
    names: tuple[str, ...] = ()  # all where empty
    batches: tuple[int, ...] = ()  # each workload's own where empty
    workers: tuple[int, ...] = (1,)
    threads: int = 1
    steps: int = 5  # recorded, and as many without instruments before and after
    limit_bytes: int = 0  # of a worker; 0: its part of what is free
    data: Path | None = None
    keep_runs: bool = False  # recordings too
    own: tuple[str, ...] = ()  # a command in place of workloads: `own`
    end_s: float = math.inf  # as time.monotonic tells it: nothing more is begun after it

    def keys(self) -> list[Key]:
        if self.own:
            checked(self.own, self.batches, self.workers)
        return [
            Key(name, batch, workers)
            for name in ((named_after(self.own),) if self.own else chosen(self.names))
            for workers in self.workers
            for batch in self.batches or named(name).pace.batches
        ]

    @property
    def setting(self) -> Setting:
        """By which rows of earlier runs are known to be the same measurement."""
        return Setting(
            this_machine(),
            versions(),
            self.threads,
            self.steps,
            self.limit_bytes,
            str(self.data or ""),
            " ".join(self.own),
        )

    @property
    def over(self) -> bool:
        return time.monotonic() > self.end_s


def to_quality(sweep: Sweep) -> Sweep:
    """The same for trainings to a quality, which record nothing and have no limit."""
    return replace(sweep, steps=0, limit_bytes=0)


def versions() -> dict[str, str]:
    """Of what decides how long a step takes."""
    return {name: _version(name) for name in ("paceline", "torch", "numpy")}


def _version(library: str) -> str:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return "not installed"
