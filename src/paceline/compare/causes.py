"""What the difference comes from: each place goes to the first rule that claims it.

A rule knows one cause: a trait in which the runs differ (batch, buckets, operators), or a pattern
of times (one rank alone, input, threads without a core). So causes do not overlap and sum to the
difference. What no rule claims stays unexplained, and what spreads as much by itself is told apart.

The path that a step hangs on may leave work for messages, or come back from them, though the work
takes as long as before: messages that begin earlier or take longer then stand in its place. What
the path runs less through work that did not change is the messages' doing, and counts for them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from paceline.compare.pair import RunPair
from paceline.compare.places import WorkPlace
from paceline.graph import NONE


class CauseKind(Enum):
    """Why; the value is its name in JSON."""

    MODEL = "another model"
    WORKERS = "another number of workers"
    BATCH = "another batch size"
    REPLACED = "operators replaced"
    OPTIMIZER = "another optimizer"
    LAYER_ON_RANK = "a layer on one rank"
    RANK = "one rank"
    LAYER = "a layer on all ranks"
    WORK = "work of all layers"
    HOST = "host calls"
    INPUT = "input"
    BUCKETS = "another cut of the messages"
    VOLUME = "more or fewer bytes sent"
    LINK = "the link"
    EXPOSED = "communication hidden otherwise"
    CORE = "threads without a core"
    WAITING = "waiting"
    REST = "smaller differences"
    UNSEEN = "not seen in the recorded steps"


_OF_THE_JOB: Final = frozenset(
    {
        CauseKind.MODEL,
        CauseKind.BATCH,
        CauseKind.REPLACED,
        CauseKind.OPTIMIZER,
        CauseKind.LAYER_ON_RANK,
        CauseKind.RANK,
        CauseKind.LAYER,
        CauseKind.INPUT,
    }
)
_OF_MESSAGES: Final = frozenset(
    {
        CauseKind.WORKERS,
        CauseKind.VOLUME,
        CauseKind.BUCKETS,
        CauseKind.EXPOSED,
        CauseKind.LINK,
    }
)
_OF_WORK: Final = frozenset({CauseKind.LAYER, CauseKind.WORK, CauseKind.HOST})
_FAR: Final = 3.0


@dataclass(frozen=True)
class Moved:
    """One place of a cause, ns a step."""

    place: WorkPlace
    before_ns: float
    after_ns: float


@dataclass(frozen=True)
class Cause:
    """A part of the difference, and where it is. `before` and `after` are the trait that differs:
    bytes of a batch, messages, bytes, bytes per second, workers."""

    kind: CauseKind
    share_ns: float
    noise_ns: float = 0.0
    rank: int = NONE
    layers: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()  # operators of the first run that the second has not
    come: tuple[str, ...] = ()
    before: float = 0.0
    after: float = 0.0
    moved: tuple[Moved, ...] = ()  # most first

    @property
    def beyond_noise(self) -> bool:
        return abs(self.share_ns) > self.noise_ns

    @property
    def steady(self) -> bool:
        """Far beyond noise, and neither the network nor other programs make it."""
        return abs(self.share_ns) > _FAR * self.noise_ns and self.kind in _OF_THE_JOB


@dataclass(frozen=True)
class Claim:
    """What a rule takes: places, and what it says of them."""

    kind: CauseKind
    places: tuple[WorkPlace, ...]
    rank: int = NONE
    layers: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    come: tuple[str, ...] = ()
    before: float = 0.0
    after: float = 0.0


Rule = Callable[[RunPair, tuple[WorkPlace, ...]], Iterable[Claim]]
MOST_PLACES: Final = 6
LEAST_SHARE: Final = 0.01
"""Of a step: a cause below it is one of the smaller differences, however steady it is."""
_LAST: Final = (CauseKind.REST, CauseKind.UNSEEN)


def causes_of(pair: RunPair, rules: Iterable[Rule], difference_ns: float) -> tuple[Cause, ...]:
    """What changed most comes first, in the direction of the difference; they sum to it."""
    left = pair.places
    claims: list[Claim] = []
    for rule in rules:
        for claim in rule(pair, left):
            taken = set(claim.places)
            left = tuple(place for place in left if place not in taken)
            claims.append(claim)
    found = _displaced(pair, claims, [_cause(pair, claim) for claim in claims])
    least = LEAST_SHARE * pair.a.steps.median_ns
    named = [each for each in found if each.beyond_noise and abs(each.share_ns) > least]
    rest = pair.change_ns(pair.places) - sum(each.share_ns for each in named)
    unseen = difference_ns - pair.change_ns(pair.places)
    named += [Cause(CauseKind.REST, rest), Cause(CauseKind.UNSEEN, unseen)]
    return tuple(sorted((c for c in named if c.share_ns), key=_order(difference_ns)))


def _displaced(pair: RunPair, claims: Sequence[Claim], causes: Sequence[Cause]) -> list[Cause]:
    """The causes, with what the path left or gained of work that did not change counted for the
    messages, where there are any."""
    found = list(causes)
    talk = next((at for at, claim in enumerate(claims) if claim.kind in _OF_MESSAGES), None)
    if talk is None:
        return found
    share, places = causes[talk].share_ns, claims[talk].places
    for at, claim in enumerate(claims):
        away = pair.displaced_ns(claim.places) if claim.kind in _OF_WORK else 0.0
        if away:
            found[at] = replace(causes[at], share_ns=causes[at].share_ns - away)
            share, places = share + away, (*places, *claim.places)
    found[talk] = replace(causes[talk], share_ns=share, noise_ns=pair.noise_ns(places))
    return found


def _order(difference_ns: float) -> Callable[[Cause], tuple[bool, float]]:
    sign = 1 if difference_ns >= 0 else -1
    return lambda cause: (cause.kind in _LAST, -sign * cause.share_ns)


def _cause(pair: RunPair, claim: Claim) -> Cause:
    moved = [Moved(place, *pair.path_ns([place])) for place in claim.places]
    moved.sort(key=lambda each: -abs(each.after_ns - each.before_ns))
    return Cause(
        claim.kind,
        pair.change_ns(claim.places),
        pair.noise_ns(claim.places),
        claim.rank,
        claim.layers,
        claim.gone,
        claim.come,
        claim.before,
        claim.after,
        tuple(each for each in moved[:MOST_PLACES] if each.after_ns != each.before_ns),
    )


def by_size(changes: Mapping[str, float]) -> tuple[str, ...]:
    """Names by how much changed there, most first."""
    return tuple(sorted(changes, key=lambda name: -abs(changes[name])))
