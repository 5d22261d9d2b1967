"""The workloads of `paceline bench` as jobs of other benchmarks.

Batches are the second smallest that each workload's sweep tries, so that a run of all of them ends
within half an hour.
"""

from dataclasses import dataclass

from paceline.bench import Spread, catalogue, named
from paceline.bench.point import Key
from paceline.bench.sweep import command

WORKERS = (1, 2)


@dataclass(frozen=True)
class SuiteJob:
    """A workload on so many workers, as a row of self-replay."""

    workload: str
    workers: int

    @property
    def name(self) -> str:
        return f"{self.workload} x{self.workers}"

    def command(self, steps: int, *others: str) -> list[str]:
        key = Key(self.workload, batch_of(self.workload), self.workers)
        return list(command(key, "--steps", str(steps), *others))


def jobs() -> tuple[SuiteJob, ...]:
    """Every workload that this machine has the packages for, on one worker and on two."""
    return tuple(SuiteJob(name, workers) for name in installed() for workers in WORKERS)


def installed() -> list[str]:
    return [name for name in catalogue.names() if not catalogue.missing(named(name))]


def data_parallel() -> list[str]:
    """Those whose workers exchange gradients alone."""
    return [name for name in installed() if named(name).spread is Spread.DATA]


def batch_of(name: str) -> int:
    return named(name).pace.batches[1]
