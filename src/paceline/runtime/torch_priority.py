"""A thread that hands exchanges to the library one at a time, alike on all ranks.

All ranks must issue the same collectives in the same order, and gradients become ready on each at
its own time. The group's first rank chooses: of what is ready there it takes what is least by
(priority, turn), announces it by a broadcast of two numbers, and issues it; the others issue what
was announced once it is ready with them. They listen only while they have handed in more than was
announced, so between steps no thread is in the library.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

from paceline.runtime.torch_groups import new_groups
from paceline.runtime.torch_turns import run_into

Key = tuple[int, int]  # priority, and which exchange of that priority this is
Exchange = Callable[[], None]
"""Runs the exchange to its end."""


@contextmanager
def scheduler(parent: Any) -> Iterator["Scheduler"]:
    """A scheduler over a group of its own with the parent's members; they must all come here."""
    ranks = tuple(dist.get_process_group_ranks(parent))
    with new_groups([ranks]) as made:
        agreed = Scheduler(made[ranks], ranks[0])
        try:
            yield agreed
        finally:
            agreed.close()


class Scheduler:
    """Takes exchanges in, and runs them in an order on which all ranks agree."""

    def __init__(self, group: Any, lead: int) -> None:
        self.group = group
        self._lead, self._leads = lead, dist.get_rank() == lead
        self._waiting: dict[Key, tuple[Exchange, Any]] = {}
        self._turns: dict[int, int] = {}  # by priority
        self._taken_in = self._announced = 0
        self._changed, self._closing = threading.Condition(), False
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="exchanges", daemon=True)
        self._thread.start()

    def submit(self, priority: int, exchange: Exchange) -> Any:
        """A future of torch that is done once the exchange is."""
        future: Any = torch.futures.Future()
        with self._changed:
            if self._failed is not None:
                raise self._failed
            turn = self._turns.get(priority, 0)
            self._turns[priority] = turn + 1
            self._waiting[priority, turn] = exchange, future
            self._taken_in += 1
            self._changed.notify()
        return future

    def close(self) -> None:
        """End the thread. A job that broke on its way may have left exchanges that wait for other
        ranks; then it ends with the process group."""
        with self._changed:
            self._closing = True
            idle = not self._waiting and self._announced == self._taken_in
            self._changed.notify()
        if idle:
            self._thread.join()

    def _run(self) -> None:
        while (taken := self._next()) is not None:
            exchange, future = taken
            run_into(future, exchange)

    def _next(self) -> tuple[Exchange, Any] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._closing or self._announced < self._taken_in)
            if self._announced == self._taken_in:
                return None
            chosen = min(self._waiting) if self._leads else (0, 0)
        try:
            key = self._agreed(chosen)
        except Exception as error:  # noqa: BLE001  whoever waits for any of them is told
            self._fail(error)
            return None
        with self._changed:
            self._announced += 1
            self._changed.wait_for(lambda: self._closing or key in self._waiting)
            return self._waiting.pop(key, None)

    def _agreed(self, chosen: Key) -> Key:
        """What the lead chose."""
        told = torch.tensor(chosen, dtype=torch.int64)
        dist.broadcast(told, self._lead, group=self.group)
        priority, turn = told.tolist()
        return priority, turn

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._failed = error
            for _, future in self._waiting.values():
                future.set_exception(error)
            self._waiting.clear()
