"""Clients and their data, runs of rounds, and when they reach a target, for a terminal."""

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import TYPE_CHECKING

from paceline.learn import Forecast, LearnRun, Partition
from paceline.learn.arms import Arm, names_of
from paceline.learn.noise import NoiseScale
from paceline.report.text.quantities import duration, size
from paceline.report.text.table import curve, plain_table

if TYPE_CHECKING:
    from rich.table import Table

_MARKS = "0123456789abcdefghijklmnopqrstuvwxyz"
_WIDE = 50
_CURVE = 30


def partition_lines(partition: Partition, most: int = 40) -> Iterator[str]:
    """A bar for each client, a mark for each fiftieth of its samples: which class they are of."""
    sizes = partition.sizes
    yield (
        f"{len(partition)} clients, {sum(sizes):,} samples, {partition.how}: "
        f"skew {partition.skew:.3f} (0: all have the same mixture)"
    )
    for number, counts in enumerate(partition.counts[:most].tolist()):
        yield f"{number:>6}  {_bar(counts)}  {sum(counts):,}"
    if len(partition) > most:
        yield f"        and {len(partition) - most} more"


def _bar(counts: Sequence[int]) -> str:
    """Largest remainders, so that the marks of a bar are as many as it is wide."""
    whole = sum(counts)
    exact = [_WIDE * count / whole for count in counts]
    marks = [int(each) for each in exact]
    order = sorted(range(len(counts)), key=lambda at: marks[at] - exact[at])
    for at in order[: _WIDE - sum(marks)]:
        marks[at] += 1
    return "".join(_MARKS[at % len(_MARKS)] * count for at, count in enumerate(marks))


def arm_lines(arms: Sequence[Arm]) -> Iterator[str]:
    """Two lines for each: what it was, and what it gave."""
    for arm in arms:
        first = arm.first
        seeds = f"{len(arm.runs)} seeds" if len(arm.runs) > 1 else "one seed"
        yield (
            f"{first.algorithm}, {first.model}, {_clients(first)}, {first.partition} "
            f"(skew {first.skew:.2f}), {seeds}"
        )
        yield (
            f"  {arm.accuracy:.3f} ± {2 * arm.error:.3f} after {arm.rounds} rounds, "
            f"{size(arm.sent_bytes)} sent  {_curve(first)}"
        )
        for note in dict.fromkeys(note for run in arm.runs for note in run.notes):
            yield f"  {note}"


def _clients(run: LearnRun) -> str:
    """How many there are, and who of them takes part in a round."""
    asked = f", {run.per_round} a round" if run.per_round else ""
    drops = f", {run.drops:.0%} drop out" if run.drops else ""
    return f"{run.clients} clients{asked}{drops}"


def _curve(run: LearnRun) -> str:
    """Accuracies of evenly spread judgements."""
    found = [each.accuracy for each in run.judged]
    stride = max(1, -(-len(found) // _CURVE))
    return curve(found[::stride])


def forecast_table(forecasts: Sequence[Forecast], target: float) -> "Table":
    names = ("algorithm", "time", "from", "to", "rounds", "a round", "sent")
    rows = (
        (
            name,
            _seconds(one.seconds),
            _seconds(one.low_s),
            _seconds(one.high_s),
            "-" if one.reach.rounds is None else f"{one.reach.rounds:,.0f}",
            duration(1e9 * one.round.mean_s),
            "-" if one.sent_bytes is None else size(one.sent_bytes),
        )
        for name, one in zip(_names(forecasts), forecasts)
    )
    return plain_table(f"time to an accuracy of {target:g}", names, rows)


def forecast_notes(forecasts: Sequence[Forecast]) -> Iterator[str]:
    for name, one in zip(_names(forecasts), forecasts):
        yield from (f"{name}{note}" for note in _notes(one))


def _notes(one: Forecast) -> Iterator[str]:
    found = one.reach
    if found.rounds is None and found.can_be_carried_on:
        yield (
            f" does not reach {found.target:g}: its runs got to {found.best:.3f}, and their curve "
            "does not lead there within twenty times their length"
        )
    elif found.rounds is None:
        yield (
            f" did not reach {found.target:g}: its runs got to {found.best:.3f}, and a curve of "
            f"{found.judged} judgements cannot be carried on; give more (--rounds, --every)"
        )
    elif not found.observed:
        yield f": {found.best:.3f} was reached; beyond, its curve is carried on"
        if found.high is None:
            yield f": it may never reach {found.target:g}, so its time has no upper end"
    if one.runs == 1 and found.rounds is not None:
        yield ": one seed alone, so the interval knows nothing of other seeds"
    slow = one.round.slow_s / one.round.mean_s
    if slow > 1.2:
        yield f": one round in twenty takes {slow:.2f} times the mean or more"


def _names(forecasts: Sequence[Forecast]) -> list[str]:
    return names_of([one.asked for one in forecasts])


def noise_line(found: NoiseScale) -> str:
    """What it means for batches of other sizes."""
    high = f"{found.high:,.2f}" if isfinite(found.high) else "no end"
    twice = (2 + found.batches) / (1 + found.batches)
    return (
        f"gradient noise scale: {found.batches:,.2f} batches of {found.workers} workers as they "
        f"ran ({found.low:,.2f} to {high}), over {found.steps} steps; twice the batch needs "
        f"{twice:.2f} times the samples to the same accuracy"
    )


def _seconds(value: float | None) -> str:
    return "-" if value is None else duration(1e9 * value)
