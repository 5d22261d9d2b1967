"""How a training is fed: a run's utilisation, what it lost it to, and what was predicted."""

from collections.abc import Mapping, Sequence

from rich.table import Table

from paceline.feed import FeedRun, Utilisation
from paceline.predict.input import Fed


def feed_lines(run: FeedRun, found: Utilisation) -> tuple[str, ...]:
    given, how = run.description, run.loading
    asked = f", {given.utilisation:.0%} is asked for" if given.utilisation else ""
    cache = f"{run.cached_share:.0%} of its files were in the cache"
    lines = [
        f"{given.name} in {given.format}: accelerator utilisation {found.computing:.1%}{asked}. "
        f"{found.steps} steps with {how.workers} workers; {cache} before the first.",
        f"{found.samples_per_s:,.1f} samples/s, {found.bytes_per_s / 1e6:,.1f} MB/s read.",
    ]
    lines += damage_lines(run.damaged)
    return tuple(lines)


def damage_lines(damaged: Mapping[str, int]) -> list[str]:
    if not damaged:
        return []
    total = sum(damaged.values())
    told = ", ".join(f"{name} ({count})" for name, count in damaged.items())
    return [f"{total} samples could not be read and were left out: {told}"]


def feed_table(runs: Sequence[tuple[FeedRun, Utilisation]]) -> Table:
    """A run a row."""
    shares = list(runs[0][1].shares)
    table = Table("workers", *shares, "samples/s", box=None)
    for run, found in runs:
        cells = (f"{share:.1%}" for share in found.shares.values())
        table.add_row(str(run.loading.workers), *cells, f"{found.samples_per_s:,.1f}")
    return table


def fed_table(rows: Sequence[Fed]) -> Table:
    table = Table("changes", "utilisation", "step", box=None)
    for row in rows:
        changes = " + ".join(row.changes) or "as recorded"
        table.add_row(changes, f"{row.utilisation:.1%}", f"{row.step_ns / 1e6:,.2f} ms")
    return table
