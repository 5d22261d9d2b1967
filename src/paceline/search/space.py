"""`Space`: the settings of every strategy that a search may choose from, and which go together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import prod

from paceline.errors import PacelineError
from paceline.graph.condense import Grain
from paceline.predict import Candidates
from paceline.search.errors import SearchError
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

    @property
    def settings(self) -> tuple[Strategy, ...]:
        return tuple(setting for settings in self.options.values() for setting in settings)

    def plans(self) -> Iterator[Plan]:
        """Every plan without conflicts, the empty one first; those that begin alike together."""
        yield from self._from((), tuple(self.options))

    def _from(self, begun: Plan, names: Sequence[str]) -> Iterator[Plan]:
        yield begun
        for at, name in enumerate(names):
            for setting in self.options[name]:
                if fits(begun, setting):
                    yield from self._from((*begun, setting), names[at + 1 :])

    def joined(self, plan: Plan, setting: Strategy) -> Plan:
        """The plan with that setting, in place of another of its strategy and of all that cannot
        stand beside it."""
        kept = [each for each in plan if not _apart(type(each), type(setting))]
        return self.ordered([*kept, setting])

    def ordered(self, plan: Sequence[Strategy]) -> Plan:
        """As these may stand in a plan."""
        names = tuple(self.options)
        return tuple(sorted(plan, key=lambda each: names.index(name_of(type(each)))))


def space_of(
    job: Candidates, goal: Goal, *, live_only: bool, refuses: Mapping[str, str] | None = None
) -> Space:
    """What the goal allows and the job takes. `refuses`: why what it runs on does not take a
    strategy, by name."""
    keeping = (name for name in known() if not kind_of(name).remakes)
    wanted = dict.fromkeys(keeping if goal.strategies is None else goal.strategies)
    kinds = [kind_of(name) for name in wanted if name not in goal.without]
    kinds = [k for k in kinds if goal.allows(k.effect) and (k.applies or not live_only)]
    options: dict[str, tuple[Strategy, ...]] = {}
    refused: list[tuple[Strategy, str]] = []
    for kind in sorted_kinds(kinds):
        taken = []
        for setting in _choices(kind, job):
            reason = (
                (refuses or {}).get(name_of(kind)) or goal.refusal(setting) or job.refusal(setting)
            )
            if reason is None:
                taken.append(setting)
            else:
                refused.append((setting, reason))
        if taken:
            options[name_of(kind)] = tuple(taken)
    return Space(options, tuple(refused))


def fits(plan: Plan, setting: Strategy) -> bool:
    """Whether the setting can stand beside all of the plan."""
    return not any(_apart(type(each), type(setting)) for each in plan)


def go_together(plan: Sequence[Strategy]) -> bool:
    return not any(_apart(type(one), type(other)) for one, other in combinations(plan, 2))


def sorted_kinds(kinds: Sequence[type[Strategy]]) -> list[type[Strategy]]:
    """Each behind those that it follows; else first what needs most detail, which can be merged
    behind it."""
    grains = list(Grain)
    left = sorted(kinds, key=lambda kind: (grains.index(kind.grain), name_of(kind)))
    found: list[type[Strategy]] = []
    while left:
        free = [k for k in left if not any(stands_before(o, k) for o in left if o is not k)]
        if not free:
            names = ", ".join(map(name_of, left))
            raise SearchError(
                f"the strategies {names} follow one another in a circle; correct `follows` in one"
            )
        found.append(free[0])
        left.remove(free[0])
    return found


def _choices(kind: type[Strategy], job: Candidates) -> tuple[Strategy, ...]:
    """None where the job does not tell what they are made of."""
    graph = (job.unfolded if kind.by_rank else job).source(Grain.OP)
    try:
        return tuple(kind.choices(graph))
    except PacelineError:
        return ()


@cache
def _apart(one: type[Strategy], other: type[Strategy]) -> bool:
    return one is other or exclude_each_other(one, other)
