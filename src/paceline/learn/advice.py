"""What to do about it, in words, from runs that were measured and differ in one thing alone."""

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from math import sqrt

from paceline.learn.algorithm import Meeting
from paceline.learn.arms import Arm, arms
from paceline.learn.record import LearnRun

_SURE = 2.0
"""Standard errors that two accuracies must lie apart before anything follows from them."""

_NORMS = {"cnn-batch-norm": "batch normalisation", "cnn-group-norm": "group normalisation",
          "cnn": "no normalisation"}  # fmt: skip


def advice(runs: Sequence[LearnRun]) -> tuple[str, ...]:
    """Sentences; none where nothing measured speaks for a change."""
    found = arms(runs)
    lines = [
        line
        for one, other in permutations(found, 2)
        for rule in _RULES
        if (line := rule(one, other)) is not None
    ]
    return tuple(dict.fromkeys([*lines, *_broken(runs), *_lost(runs)]))


def _model(one: Arm, other: Arm) -> str | None:
    """Another network, all else alike."""
    if not _differ(one, other, "model") or not _gains(one, other):
        return None
    names = [_NORMS.get(arm.first.model, arm.first.model) for arm in (one, other)]
    return f"replace {names[0]} by {names[1]}: {_from_to(one, other)} on {one.first.partition}"


def _skew(one: Arm, other: Arm) -> str | None:
    """More skewed data, all else alike: nothing to do about, but to know."""
    milder = other.first.skew < one.first.skew
    if not milder or not _differ(one, other, "partition") or not _gains(one, other):
        return None
    points = 100 * (other.accuracy - one.accuracy)
    return (
        f"skewed data cost {points:.1f} points under {one.first.algorithm}: {other.accuracy:.3f} "
        f"at a skew of {other.first.skew:.2f}, {one.accuracy:.3f} at {one.first.skew:.2f}"
    )


def _algorithm(one: Arm, other: Arm) -> str | None:
    """Another algorithm that is better for no more bytes, or as good for fewer."""
    if not _differ(one, other, "algorithm"):
        return None
    fewer = other.sent_bytes / one.sent_bytes if one.sent_bytes else 1.0
    names = f"{other.first.algorithm} instead of {one.first.algorithm}"
    if _gains(one, other) and fewer <= 1:
        return f"{names}: {_from_to(one, other)}, with {fewer:.3g} times the bytes"
    if not _gains(other, one) and fewer < 0.5:
        return f"{names}: as accurate within the noise, with {fewer:.3g} times the bytes"
    return None


def _broken(runs: Sequence[LearnRun]) -> Iterator[str]:
    """A server asks such a client again in the next round; peers do without it."""
    for run in runs:
        for client, count in run.broken.items():
            first = next(each.number for each in run.rounds if client in each.broken)
            served = run.meeting is Meeting.SERVER
            when = f"{count} of {len(run.rounds)} rounds" if served else f"round {first + 1}"
            yield (
                f"client {client} sent infinite numbers or none in {when} of {run.algorithm} and "
                f"was left out {'of these' if served else 'from then on'}; give a smaller lr, or "
                "look at its data"
            )


def _lost(runs: Sequence[LearnRun]) -> Iterator[str]:
    for run in runs:
        for each in run.lost:
            without = ", ".join(map(str, each.clients))
            yield (
                f"worker {each.worker} died in round {each.round + 1} of {run.algorithm} "
                f"({each.cause}): {len(each.clients)} of {run.clients} clients ({without}) were "
                "left out from then on"
            )


_RULES: tuple[Callable[[Arm, Arm], str | None], ...] = (_model, _skew, _algorithm)


def _differ(one: Arm, other: Arm, name: str) -> bool:
    """By this alone; rounds of two algorithms are not alike anyway."""
    mine, theirs = one.first.asked, other.first.asked
    apart = [each for each in mine if mine[each] != theirs[each]]
    return apart == [name] and (name == "algorithm" or one.rounds == other.rounds)


def _gains(one: Arm, other: Arm) -> bool:
    """Whether the other is more accurate, beyond what chance does."""
    apart = other.accuracy - one.accuracy
    return apart > _SURE * sqrt(one.error**2 + other.error**2)


def _from_to(one: Arm, other: Arm) -> str:
    return f"{one.accuracy:.3f} -> {other.accuracy:.3f}"
