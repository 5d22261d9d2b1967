"""`diff`: why the second run takes longer than the first, or less long."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from paceline.compare.causes import Cause, causes_of
from paceline.compare.noise import Noise, noise_of
from paceline.compare.pair import RunPair
from paceline.compare.places import WorkClass, WorkPlace
from paceline.compare.rules import RULES
from paceline.compare.side import Side
from paceline.notebook import InNotebook

PART: Final = 0.03  # of a step: smaller parts alone decide nothing
CALM: Final = 0.03  # of a step, that other programs may run beside it: more moves parts of the job


class Verdict(Enum):
    """What the difference is."""

    SAME = "no difference beyond noise"
    SLOWER = "slower"
    FASTER = "faster"
    UNTESTED = "not tested"  # too few steps to tell a spread
    DISTURBED = "other programs ran"  # which explains what is beyond noise


@dataclass(frozen=True)
class DifferenceRow:
    """A class of work or a layer: its time on the path the step hangs on, ns a step."""

    name: str
    before_ns: float
    after_ns: float

    @property
    def change_ns(self) -> float:
        return self.after_ns - self.before_ns


@dataclass(frozen=True)
class RankRow:
    """What changed on one rank, ns a step; the states sum to the recorded step's change."""

    rank: int
    compute_ns: float
    transfer_ns: float  # nothing computes beside it
    for_ranks_ns: float  # waiting for others to come
    input_ns: float
    other_ns: float  # host calls, waiting for a core, gaps


@dataclass(frozen=True)
class Difference(InNotebook):
    """Everything that `diff` tells. Causes sum to `change_ns`; classes, and layers, to the change
    of the recorded steps."""

    before: str
    after: str
    before_ns: float  # a step, the median
    after_ns: float
    noise_ns: float
    verdict: Verdict
    plain: bool  # steps without instruments were compared
    steps: tuple[int, int]  # that were compared
    correlation: float
    same_model: bool
    alike: float  # share of the work at places that both runs have
    causes: tuple[Cause, ...]
    classes: tuple[DifferenceRow, ...]
    layers: tuple[DifferenceRow, ...]
    ranks: tuple[RankRow, ...]
    others_ns: tuple[float, float] | None = None  # what other programs ran beside a step, if known
    sides: tuple[Side, ...] = field(default=(), repr=False, compare=False)  # what was compared

    @property
    def change_ns(self) -> float:
        return self.after_ns - self.before_ns

    @property
    def change(self) -> float:
        """As a share of the first run's step."""
        return self.change_ns / self.before_ns if self.before_ns else 0.0

    @property
    def by_part(self) -> bool:
        """Whole steps spread more than they differ, and one part of them does not."""
        differs = self.verdict in (Verdict.SLOWER, Verdict.FASTER)
        return differs and abs(self.change_ns) <= self.noise_ns

    @property
    def noise(self) -> float:
        return self.noise_ns / self.before_ns if self.before_ns else 0.0

    def fails_above(self, share: float) -> bool:
        """Whether the second run is slower by more than this share, beyond noise."""
        return self.verdict in (Verdict.SLOWER, Verdict.UNTESTED) and self.change > share


def diff(a: Side, b: Side) -> Difference:
    """`b` against `a`."""
    pair = RunPair(a, b)
    noise = noise_of(a.steps, b.steps)
    change = b.steps.median_ns - a.steps.median_ns
    causes = causes_of(pair, RULES, change)
    others = _others(a, b)
    return Difference(
        before=a.name,
        after=b.name,
        before_ns=a.steps.median_ns,
        after_ns=b.steps.median_ns,
        noise_ns=noise.noise_ns,
        verdict=_verdict(change, noise, others, _by_one_part(causes, a.steps.median_ns, change)),
        plain=a.steps.plain and b.steps.plain,
        steps=(len(a.steps.all), len(b.steps.all)),
        correlation=noise.correlation,
        same_model=pair.same_model,
        alike=pair.alike,
        causes=causes,
        classes=_rows(pair, _class_of),
        layers=_rows(pair, lambda place: place.layer),
        ranks=_ranks(pair),
        others_ns=others,
        sides=(a, b),
    )


def _others(a: Side, b: Side) -> tuple[float, float] | None:
    if a.others_ns is None or b.others_ns is None:
        return None
    return a.others_ns, b.others_ns


def _by_one_part(causes: tuple[Cause, ...], step_ns: float, change_ns: float) -> bool:
    """Whether a part of the job changed far beyond its own noise and makes up most of the change:
    what the network and other programs do to whole steps then hides nothing."""
    return any(
        cause.steady
        and cause.share_ns * change_ns > 0
        and abs(cause.share_ns) > max(PART * step_ns, abs(change_ns) / 2)
        for cause in causes
    )


def _verdict(
    change_ns: float, noise: Noise, others: tuple[float, float] | None, by_part: bool
) -> Verdict:
    """Where other programs ran beside either run, what they ran more beside the slower one may be
    why it is slower, and no part of the job decides alone."""
    if not noise.tested:
        return Verdict.UNTESTED
    before, after = others or (0.0, 0.0)
    calm = max(before, after) <= CALM * noise.step_ns
    if abs(change_ns) <= noise.noise_ns and not (by_part and calm):
        return Verdict.SAME
    theirs = max(0.0, (after - before) * math.copysign(1.0, change_ns))
    if not calm and abs(change_ns) <= noise.noise_ns + theirs:
        return Verdict.DISTURBED
    return Verdict.SLOWER if change_ns > 0 else Verdict.FASTER


def _class_of(place: WorkPlace) -> str:
    """A communication library's threads that wait for a core keep a message waiting."""
    return (WorkClass.TRANSFER if place.communicates else place.work).value


def _rows(pair: RunPair, name_of: Callable[[WorkPlace], str]) -> tuple[DifferenceRow, ...]:
    """The places by name, what changed most first."""
    groups: dict[str, list[WorkPlace]] = {}
    for place in pair.places:
        groups.setdefault(name_of(place), []).append(place)
    rows = [DifferenceRow(name, *pair.path_ns(places)) for name, places in groups.items()]
    return tuple(sorted(rows, key=lambda row: -abs(row.change_ns)))


def _ranks(pair: RunPair) -> tuple[RankRow, ...]:
    before, after = pair.a.states, pair.b.states
    if before.ranks != after.ranks:
        return ()
    change = after.state_ns - before.state_ns
    return tuple(RankRow(rank, *row) for rank, row in zip(before.ranks, change.tolist()))
