"""Searches that pages started, one at a time, each in a thread of its own."""

import time
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from paceline.errors import PacelineError
from paceline.search import Candidate, Goal, SearchPlace, Stopped, Trials, search
from paceline.viewer.errors import ViewError

if TYPE_CHECKING:
    from paceline.report.page import JobOnCluster


@dataclass(eq=False)
class _Search:
    """What is known of one so far."""

    goal: Goal
    begun_s: float = field(default_factory=time.monotonic)
    tried: int = 0
    best_ns: float = 0.0
    stop: Event = field(default_factory=Event)
    done: dict[str, Any] | None = None

    def watch(self, trials: Trials) -> None:
        self.tried = trials.tried
        best = trials.ranked()[:1]
        self.best_ns = trials.found[best[0]].batch_ns if best else 0.0
        if self.stop.is_set():
            raise Stopped

    def told(self, number: int) -> dict[str, Any]:
        spent_s = time.monotonic() - self.begun_s
        running = {
            "search": number,
            "tried": self.tried,
            "best_ns": self.best_ns,
            "spent_s": spent_s,
            "budget_s": self.goal.budget_s,
        }
        return {**running, **(self.done or {"ended": None})}


@dataclass(eq=False)
class Searches:
    """All that were started, by number."""

    _all: list[_Search] = field(default_factory=list)
    _thread: Thread | None = None

    def start(self, job: "JobOnCluster", goal: Goal) -> dict[str, Any]:
        if self._thread is not None and self._thread.is_alive():
            raise ViewError("a search is still under way; stop it, or wait for its end")
        made = _Search(goal)
        self._all.append(made)
        self._thread = Thread(target=_run, args=(made, job), daemon=True, name="search")
        self._thread.start()
        return made.told(len(self._all) - 1)

    def told(self, number: int) -> dict[str, Any]:
        return self._search(number).told(number)

    def stop(self, number: int) -> dict[str, Any]:
        """It ends with the plan that it is at, and keeps what it found."""
        found = self._search(number)
        found.stop.set()
        return found.told(number)

    def close(self) -> None:
        """Ends what runs."""
        for each in self._all:
            each.stop.set()
        if self._thread is not None:
            self._thread.join()

    def _search(self, number: int) -> _Search:
        if not 0 <= number < len(self._all):
            raise ViewError(f"there is no search {number}")
        return self._all[number]


def _run(made: _Search, job: "JobOnCluster") -> None:
    try:
        place = SearchPlace(watch=made.watch)
        found = search(job.graph, job.cluster, job.question, made.goal, place=place)
        made.tried = found.tried
        made.done = {
            "ended": found.ended.value,
            "best": _told(found.best),
            "unchanged": _told(found.unchanged),
        }
    except PacelineError as error:
        made.done = {"ended": "refused", "error": str(error)}


def _told(found: Candidate) -> dict[str, Any]:
    return {
        "plan": "+".join(str(part) for part in found.plan),
        "step_ns": found.step_ns,
        "batch_ns": found.batch_ns,
        "effect": found.effect.value,
        "reasons": list(found.reasons),
    }
