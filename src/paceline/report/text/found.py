"""What a search found: the best plan with its reasons, and the plans that trade one thing for
another."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from paceline.report.text.quantities import duration, size
from paceline.search import Candidate, Ended, Found

if TYPE_CHECKING:
    from rich.table import Table

_ENDED = {
    Ended.DONE: "",
    Ended.BUDGET: "; the budget was spent, so that there may be better ones",
    Ended.INTERRUPTED: "; interrupted, so that there may be better ones",
}
MOST = 8
"""Rows of the table, from the fastest plan on."""


def found_lines(found: Found) -> Iterator[str]:
    best, before = found.best, found.unchanged
    rate = found.tried / found.seconds if found.seconds else 0.0
    yield (
        f"{found.tried:,} plans tried in {found.seconds:.1f} s ({rate:,.0f} a second)"
        f"{_ENDED[found.ended]}"
    )
    yield f"as it is: {_step(before)}{_until(before)}"
    if found.sharded is not None:
        yield f"with FSDP2 in place of DDP (fully_sharded): {_step(found.sharded)}"
    if not best.plan:
        yield "keep what you have: nothing that was tried makes it better"
        return
    gain = before.batch_ns / best.batch_ns
    yield (
        f"best plan, {best.effect.value}: {_step(best)}, {gain:.2f} times as fast{_until(best)}"
        f"{_sooner(before, best)}"
    )
    yield from (f"  {reason}" for reason in best.reasons)


def pareto_table(found: Found) -> "Table":
    """Plans of which none beats another in time, exactness, bytes and memory at once."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("none beats in every respect", overflow="fold")
    table.add_column("effect")
    for name in ("a batch", "sends", "memory"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in found.pareto[:MOST]:
        plan = ", ".join(map(str, each.plan)) or "as it is"
        held = "" if each.memory_bytes is None else size(each.memory_bytes)
        row = (duration(each.batch_ns), size(each.sends), held)
        table.add_row(plan, each.effect.value, *row)
    if len(found.pareto) > MOST:
        table.add_row(f"and {len(found.pareto) - MOST} more (--json)", "", "", "", "")
    return table


def _until(each: Candidate) -> str:
    """The time to the target, where that is the goal."""
    there = each.reached
    if there is None:
        return ""
    if there.seconds is None or there.learned.batches is None:
        return "; the target is out of its reach"
    low, high = (None if s is None else duration(1e9 * s) for s in (there.low_s, there.high_s))
    return (
        f"; the target after {duration(1e9 * there.seconds)} ({low} to {high or 'perhaps never'}), "
        f"{there.learned.batches.middle:,.0f} recorded batches"
    )


def _sooner(before: Candidate, best: Candidate) -> str:
    if not (before.reached and best.reached and before.reached.seconds and best.reached.seconds):
        return ""
    return f", {before.reached.seconds / best.reached.seconds:.2f} times as soon"


def _step(each: Candidate) -> str:
    """A step with its interval, for a recorded batch where the step has another."""
    told = f"a step of {duration(each.step_ns)}"
    if each.low_ns is not None and each.high_ns is not None:
        told += f" (typical error: {duration(each.low_ns)} to {duration(each.high_ns)})"
    if each.batch_ns != each.step_ns:
        told += f", {duration(each.batch_ns)} for a recorded batch"
    if each.memory_bytes is not None:
        told += f", {size(each.memory_bytes)} at its peak"
    return f"{told}, {size(each.sends)} sent"
