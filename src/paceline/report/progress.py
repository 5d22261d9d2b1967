"""Progress bars on long work: shown on a terminal, silent everywhere else."""

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def tracked(items: Iterable[Item], what: str, total: int | None = None) -> Iterator[Item]:
    """The items, with a bar on standard error while it is a terminal; NO_COLOR is respected."""
    if not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    yield from track(items, what, total=total, console=console, transient=True)
