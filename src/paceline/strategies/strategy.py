"""`Strategy`: one idea with both halves, a change of a graph and the same change of a live job.

A strategy is a frozen dataclass whose fields are its settings, in a file that has its name.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import MISSING, Field, fields
from enum import Enum
from functools import cache
from itertools import combinations
from sys import modules
from typing import Any, ClassVar

from paceline.cost import Carrier
from paceline.cost.forecast import Constants
from paceline.errors import PacelineError
from paceline.graph import Collective, Graph
from paceline.graph.condense import Grain
from paceline.runtime.run import Run

KEEPERS = frozenset({"checkpoint", "compress_activations", "offload_activations"})
"""Strategies that decide how activations are kept: one of them in a plan."""


class StrategyError(PacelineError):
    """A strategy that is not known, not written as one, or does not fit the job."""


class Effect(Enum):
    """What a strategy does to the numbers that are learnt."""

    EXACT = "exact"  # the same, but for rounding where the order of arithmetic changes
    LOSSY = "lossy"  # gradients or activations lose precision on their way
    RELAXED = "relaxed"  # workers see each other's updates later, or another batch


class Strategy(ABC):
    """A frozen dataclass whose fields are the settings. A field that takes no part in comparisons
    is none: it holds what the change is told by whoever makes it."""

    grain: ClassVar[Grain] = Grain.EVENT  # of the recorded step that it changes
    effect: ClassVar[Effect] = Effect.EXACT
    conflicts: ClassVar[frozenset[str]] = frozenset()
    """Names that cannot stand in the same plan; a base class's file stands for all built on it."""
    follows: ClassVar[frozenset[str]] = frozenset()  # names that stand before it where both are
    applies: ClassVar[bool] = False  # whether `apply` can do it to a live job
    in_turns: ClassVar[bool] = True  # whether steps with and without it can take turns in one run
    remakes: ClassVar[bool] = False  # trains another model: searched only where it is named
    one_host: ClassVar[bool] = False  # whether all workers must share one host's memory
    frees_memory: ClassVar[bool] = False  # for time, so that it is searched where memory counts
    recruits: ClassVar[bool] = False  # changes how many workers the job has
    resizes: ClassVar[bool] = False  # relaxed by the number of samples in a step alone
    how: ClassVar[str] = ""  # where it cannot: what the user does instead
    by_rank: ClassVar[bool] = False  # whether it may do unlike things to ranks that are alike
    at_once: ClassVar[bool] = False
    """Whether it may be made to several jobs that stand side by side: each comes out as if it were
    alone. Such a change leaves facts and groups as they are."""

    @abstractmethod
    def transform(self, graph: Graph) -> Graph:
        """The graph of the job with this change; durations that are then unknown are unpriced."""

    @classmethod
    def choices(cls, graph: Graph) -> "Iterator[Strategy]":
        """Settings worth trying on this job; the defaults, where every setting has one."""
        if all(f.default is not MISSING for f in fields(cls)):  # type: ignore[arg-type]
            yield cls()

    def refusal(self, graph: Graph) -> str | None:
        """Why this does not fit the job, or None where it does."""
        try:
            self.transform(graph)
        except PacelineError as error:
            return str(error)
        return None

    def same_within(self, classes: Sequence[int]) -> bool:
        """Whether it does the same to all ranks of a class; `classes` has one for each rank."""
        return not self.by_rank

    def carriers(self) -> Mapping[Collective, Carrier]:
        """What carries a collective between hosts in place of the job's library, if anything."""
        return {}

    def rests_on(self, graph: Graph) -> Iterable[str]:
        """What the change of this job rests on that the graph does not tell: estimates, limits."""
        return ()

    def priced_by(self, constants: Constants | None) -> "Strategy":
        """The same change; what it forecasts goes by these constants, as before if None."""
        return self

    def settled(self) -> "Strategy":
        """The same change once its beginning is over: what is predicted of it, and what a trial of
        some dozen steps can see."""
        return self

    def apply(self, run: Run) -> AbstractContextManager[None]:
        """Make the change in the live job; leaving the context undoes it."""
        raise self._predicted_only()

    def require_live(self) -> None:
        """An error where it can be predicted alone; asked before a job is started for it."""
        if type(self).apply is Strategy.apply:
            raise self._predicted_only()

    def _predicted_only(self) -> StrategyError:
        return StrategyError(f"{self} cannot be switched on in a running job. {self.how}".strip())

    def __str__(self) -> str:
        told = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in settings_of(type(self)))
        return f"{name_of(type(self))}({told})" if told else name_of(type(self))


def settings_of(kind: type[Strategy]) -> tuple[Field[Any], ...]:
    """What whoever writes a strategy sets."""
    return tuple(f for f in fields(kind) if f.compare)  # type: ignore[arg-type]


def transformed(graph: Graph, plan: Iterable[Strategy]) -> Graph:
    """The graph after every change in turn."""
    changes = tuple(plan)
    require_order(changes)
    for change in changes:
        graph = change.transform(graph)
    return graph


def require_order(plan: Sequence[Strategy]) -> None:
    """Refuse a strategy behind one that builds on what it changes."""
    for one, other in combinations(plan, 2):
        if stands_before(type(other), type(one)):
            raise StrategyError(
                f"{one} builds on what {other} changes, and stands before it; give {other} first"
            )


@cache
def stands_before(one: type[Strategy], other: type[Strategy]) -> bool:
    """Whether the first stands before the second in a plan that has both."""
    return bool(_names(one) & other.follows)


def exclude_each_other(one: type[Strategy], other: type[Strategy]) -> bool:
    """Whether two strategies cannot stand in one plan."""
    return bool(one.conflicts & _names(other) or other.conflicts & _names(one))


@cache
def _names(kind: type[Strategy]) -> frozenset[str]:
    """A strategy's own name, and those of the files whose classes it is built on."""
    return frozenset(name_of(base) for base in kind.__mro__ if issubclass(base, Strategy))


def name_of(kind: type[Strategy]) -> str:
    """A strategy is called as its file."""
    return kind.__module__.rpartition(".")[2]


def in_a_sentence(kind: type[Strategy]) -> str:
    """What a strategy is: the first sentence of its file."""
    text = (modules[kind.__module__].__doc__ or "").strip()
    return " ".join(text.split()).split(". ")[0].rstrip(".")


def brief(change: Strategy) -> str:
    """A strategy with those settings that are not its defaults."""
    told = [
        f"{f.name}={value!r}"
        for f in settings_of(type(change))
        if (value := getattr(change, f.name)) != f.default
    ]
    name = name_of(type(change))
    return f"{name}({', '.join(told)})" if told else name
