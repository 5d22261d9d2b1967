"""Progress of long work: shown on standard error while it is a terminal, silent everywhere else.

NO_COLOR is respected, as rich does.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")


def tracked(items: Iterable[Item], what: str, total: int | None = None) -> Iterator[Item]:
    """The items, with a bar that fills as they are taken."""
    if not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(items, what, total=total, console=Console(stderr=True), transient=True)


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """A sign of life for work whose length is unknown; call it to say how far the work is."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console

    with Console(stderr=True).status(what) as status:
        yield lambda text: status.update(f"{what}: {text}")
