"""`FeedRun`: what a training loop with a real loader did, batch by batch. No torch in here.

All times are of one clock (`CLOCK_MONOTONIC`, which the processes of a machine share), in ns.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from paceline.feed.description import Description, as_yaml, parse
from paceline.feed.errors import FeedError
from paceline.feed.reader import Cost, Damaged
from paceline.graph.facts import Stored


class Computing(Enum):
    """What stands for the accelerator."""

    SLEEP = "sleep"  # an accelerator that needs no core of the host
    REAL = "real"  # products of matrices on the training thread


@dataclass(frozen=True)
class Loading:
    """The loader's settings, and what the cache holds when the run begins."""

    workers: int = 0
    prefetch: int = 2
    pinned: bool = False
    cached: bool = True
    drop_all: bool = False  # where not cached: with the data set whatever else the machine had
    computing: Computing = Computing.SLEEP
    steps: int = 0  # 0: as many as the data set has batches

    def __post_init__(self) -> None:
        if self.workers < 0 or self.prefetch < 1 or self.steps < 0:
            raise FeedError(
                f"{self.workers} workers, {self.prefetch} batches ahead, {self.steps} steps: give "
                "0, 1 and 0 or more"
            )


@dataclass(frozen=True)
class Batch:
    """One step: the loop asks, gets a batch, computes."""

    asked_ns: int
    got_ns: int
    done_ns: int  # with computing
    begun_ns: int  # of the loader's work on it
    ready_ns: int  # its end
    worker: int  # NONE (-1): the training thread
    cost: Cost  # of its samples
    collate_ns: int
    collate_worked_ns: int = 0
    ran_ns: int = 0  # the training thread's processor time between asking and getting
    damaged: tuple[Damaged, ...] = ()


@dataclass(frozen=True)
class HandOver:
    """What handing over a batch of this size takes."""

    sent_ns: int = 0  # of the worker, on a core
    taken_ns: int = 0  # of the training thread, on a core
    answered_ns: int = 0  # until the worker answers, which is busy with its next batch


@dataclass(frozen=True)
class FeedRun:
    """A run, and what else was measured of the machine with this data set."""

    description: Description
    loading: Loading
    batches: tuple[Batch, ...]
    compute_ns: int  # of a batch, alone
    hand_over: HandOver = HandOver()
    storage_bytes_per_s: float = 0.0  # to several readers together; 0: not a limit
    formats: tuple[Stored, ...] = ()
    cached_share: float = 0.0  # of the files, when it began
    cores: float = 0.0  # of the host; less than there are where together they do less

    @property
    def damaged(self) -> Mapping[str, int]:
        """Samples that could not be read, by file."""
        names = [each.file for batch in self.batches for each in batch.damaged]
        return {name: names.count(name) for name in dict.fromkeys(names)}


def save(run: FeedRun, path: Path) -> None:
    plain = asdict(run) | {"description": as_yaml(run.description)}
    plain["loading"] |= {"computing": run.loading.computing.value}
    path.write_text(json.dumps(plain))


def load(path: Path) -> FeedRun:
    try:
        plain = json.loads(path.read_text())
        return _typed(plain, str(path))
    except OSError as error:
        raise FeedError(
            f"{path} cannot be read ({error.strerror}); make a run with "
            "`paceline io run DATA -o FOLDER`"
        ) from error
    except (ValueError, TypeError, KeyError) as error:
        raise FeedError(f"{path} is no run of `paceline io run`: {error}. Run it again.") from error


def _typed(plain: dict[str, Any], source: str) -> FeedRun:
    settings = plain["loading"] | {"computing": Computing(plain["loading"]["computing"])}
    batches = (
        Batch(**each | {
            "cost": Cost(**each["cost"]),
            "damaged": tuple(Damaged(**one) for one in each["damaged"]),
        })
        for each in plain["batches"]
    )  # fmt: skip
    return FeedRun(
        **plain | {
            "description": parse(json.dumps(plain["description"]), source),
            "loading": Loading(**settings),
            "batches": tuple(batches),
            "hand_over": HandOver(**plain["hand_over"]),
            "formats": tuple(Stored(**each) for each in plain["formats"]),
        }
    )  # fmt: skip
