"""Who is left of a group of workers, and the group that they then form.

Workers that lose a connection say so in the store, with the round that they were in. Worker 0,
which carries the server and keeps the record, waits until everyone else has come or is told dead
(`seat` tells the deaths of processes), takes those for dead that do not come in time, and writes
what it finds for the others: who is gone, and the earliest round that anyone was in.
"""

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from paceline.learn.carrier import Reformed
from paceline.learn.errors import Disconnected, LearnError
from paceline.learn.seat import WorkerPlace

POLL_S = 0.05
SILENT = "silent"
_UNUSED_TAG = 987_654
_FIRST_DIED = (
    "worker 0 died, which carries the server and keeps the record: the run cannot go on without it"
)


def store_of(place: WorkerPlace) -> Any:
    """The one that the launcher keeps, or worker 0 where that does not."""
    patience = timedelta(seconds=place.patience_s)
    store = dist.TCPStore(place.address, place.port, None, False, patience, False)
    return dist.PrefixStore(f"paceline-learn-{place.restarts}", store)


def tell_death(place: WorkerPlace, cause: str) -> None:
    """In the place of a worker that cannot."""
    store_of(place).set(f"dead/{place.rank}", cause)


def closed(group: Any, own: int) -> None:
    """Close all connections of a group: gloo does so where a message is not there in time. Every
    other worker's waiting then ends with an error, too."""
    for other in range(group.size()):
        if other != own:
            with suppress(RuntimeError):
                work = group.recv([torch.empty(1)], other, _UNUSED_TAG)
                work.wait(timedelta(milliseconds=1))


class Regroup:
    """One worker's; `agreed` counts how often the group was formed anew."""

    def __init__(self, place: WorkerPlace) -> None:
        self._place, self._store, self._times = place, store_of(place), 0

    def agreed(self, rank: int, alive: Sequence[int], round_: int, lost: Disconnected) -> Reformed:
        try:
            return self._agreed(rank, alive, round_, lost)
        except RuntimeError as error:  # the store has gone with worker 0
            raise LearnError(f"{_FIRST_DIED} ({lost})") from error

    def _agreed(self, rank: int, alive: Sequence[int], round_: int, lost: Disconnected) -> Reformed:
        self._times += 1
        self._store.set(self._key("here", rank), str(round_))
        if rank == 0:
            self._store.set(self._key("left"), self._gathered(alive))
        told = json.loads(self._awaited(lost))
        gone = {int(worker): cause for worker, cause in told["gone"].items()}
        if rank in gone:
            raise LearnError(
                f"worker {rank} was silent for so long that the others went on without it"
            ) from lost
        return Reformed(gone, told["round"])

    def made(self, at: int, size: int) -> Any:
        """The group of those that are left; the old one's connections are closed."""
        store = dist.PrefixStore(self._key("group"), self._store)
        patience = timedelta(seconds=self._place.patience_s)
        group = dist.ProcessGroup(store, at, size)
        backend = dist.ProcessGroupGloo(store, at, size, patience)
        kind = dist.ProcessGroup.BackendType.GLOO
        group._register_backend(torch.device("cpu"), kind, backend)
        group._set_default_backend(kind)
        return group

    def _gathered(self, alive: Sequence[int]) -> str:
        """By worker 0: who is gone, and where the others go on."""
        end = time.monotonic() + self._place.patience_s
        gone: dict[int, str] = {}
        rounds: dict[int, int] = {}
        while len(gone) + len(rounds) < len(alive):
            late = time.monotonic() > end
            for rank in set(alive) - set(gone) - set(rounds):
                if self._store.check([f"dead/{rank}"]):
                    gone[rank] = self._store.get(f"dead/{rank}").decode()
                elif self._store.check([self._key("here", rank)]):
                    rounds[rank] = int(self._store.get(self._key("here", rank)))
                elif late:
                    gone[rank] = SILENT
            time.sleep(POLL_S)
        return json.dumps({"gone": gone, "round": min(rounds.values())})

    def _awaited(self, lost: Disconnected) -> str:
        end = time.monotonic() + 2 * self._place.patience_s
        while not self._store.check([self._key("left")]):
            if self._store.check(["dead/0"]) or time.monotonic() > end:
                raise LearnError(f"{_FIRST_DIED} ({lost})") from lost
            time.sleep(POLL_S)
        found: str = self._store.get(self._key("left")).decode()
        return found

    def _key(self, what: str, rank: int | None = None) -> str:
        return f"{what}/{self._times}" + ("" if rank is None else f"/{rank}")
