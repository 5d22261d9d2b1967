"""`Space`: the settings of every strategy that a search may choose from, and which go together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import prod

from paceline.errors import PacelineError
from paceline.graph import Graph
from paceline.search.goal import Goal
from paceline.strategies import Strategy, kind_of, known, name_of
from paceline.strategies.strategy import exclude_each_other, stands_before

Plan = tuple[Strategy, ...]


@dataclass(frozen=True)
class Space:
    """Settings by strategy's name, in an order in which they may stand in a plan. `refused` are
    strategies that are not in it, and why."""

    options: Mapping[str, tuple[Strategy, ...]]
    refused: tuple[tuple[Strategy, str], ...] = ()

    @property
    def count(self) -> int:
        """How many combinations there are before conflicts are looked at."""
        return prod(len(settings) + 1 for settings in self.options.values())

    def singles(self) -> Iterator[Plan]:
        return ((setting,) for settings in self.options.values() for setting in settings)

    def plans(self) -> Iterator[Plan]:
        """Every plan without conflicts, the empty one first; those that begin alike together."""
        yield from self._from((), tuple(self.options))

    def _from(self, begun: Plan, names: Sequence[str]) -> Iterator[Plan]:
        yield begun
        for at, name in enumerate(names):
            for setting in self.options[name]:
                if go_together((*begun, setting)):
                    yield from self._from((*begun, setting), names[at + 1 :])

    def joined(self, plan: Plan, setting: Strategy) -> Plan:
        """The plan with that setting, in place of another of its strategy and of all that cannot
        stand beside it."""
        kept = [each for each in plan if not _apart(type(each), type(setting))]
        return ordered([*kept, setting], tuple(self.options))


def space_of(graph: Graph, goal: Goal, *, live_only: bool) -> Space:
    """Of a job's typical step: what the goal allows and the job takes."""
    wanted = known() if goal.strategies is None else tuple(dict.fromkeys(goal.strategies))
    kinds = [kind_of(name) for name in wanted]
    kinds = [k for k in kinds if goal.allows(k.effect) and (k.applies or not live_only)]
    options: dict[str, tuple[Strategy, ...]] = {}
    refused: list[tuple[Strategy, str]] = []
    for kind in sorted_kinds(kinds):
        taken = []
        for setting in kind.choices(graph):
            reason = setting.refusal(graph)
            if reason is None:
                taken.append(setting)
            else:
                refused.append((setting, reason))
        if taken:
            options[name_of(kind)] = tuple(taken)
    return Space(options, tuple(refused))


def go_together(plan: Sequence[Strategy]) -> bool:
    return not any(_apart(type(one), type(other)) for one, other in combinations(plan, 2))


def ordered(plan: Sequence[Strategy], names: Sequence[str]) -> Plan:
    """In the order of these names."""
    return tuple(sorted(plan, key=lambda each: names.index(name_of(type(each)))))


def sorted_kinds(kinds: Sequence[type[Strategy]]) -> list[type[Strategy]]:
    """By name, each behind those that it follows."""
    left, found = sorted(kinds, key=name_of), []
    while left:
        free = next(
            (k for k in left if not any(stands_before(o, k) for o in left if o is not k)), None
        )
        if free is None:
            names = ", ".join(map(name_of, left))
            raise PacelineError(f"the strategies {names} follow one another in a circle")
        found.append(free)
        left.remove(free)
    return found


@cache
def _apart(one: type[Strategy], other: type[Strategy]) -> bool:
    return one is other or exclude_each_other(one, other)
