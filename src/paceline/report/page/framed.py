"""A notebook's value as a whole page, to be shown in a frame: it stays in the notebook's file."""

from collections.abc import Callable
from typing import Any, Final

from paceline.compare import Difference
from paceline.errors import FileError
from paceline.predict import Prediction
from paceline.replay import Timeline
from paceline.report.page.contents import Contents
from paceline.report.page.gather import Asked, gather, gather_prediction
from paceline.report.page.write import page_of, template

MOST_OPS: Final = 100_000
"""Of all that is drawn: a notebook keeps the page of every cell that showed one."""


def framed(value: Any) -> str | None:
    """The page of a timeline, a prediction or a difference; None for what has no timeline or too
    long a one, and where the page was not built into this installation."""
    kind = next((kind for kind in _PAGES if isinstance(value, kind)), None)
    if kind is None:
        return None
    ops, contents = _PAGES[kind]
    if not 0 < ops(value) <= MOST_OPS:
        return None
    try:
        shell = template()
    except FileError:
        return None
    return page_of(contents(value), shell)


def _of_timeline(value: Timeline) -> Contents:
    return gather(Asked(str(value.graph.meta.get("run") or "timeline"), value.graph))


def _of_difference(value: Difference) -> Contents:
    before, after = value.sides
    asked = Asked(
        f"{value.before} and {value.after}",
        before.graph,
        other=after.graph,
        other_name=value.after,
        difference=value,
    )
    return gather(asked)


_PAGES: Final[dict[type, tuple[Callable[[Any], int], Callable[[Any], Contents]]]] = {
    Timeline: (lambda value: len(value.graph), _of_timeline),
    Prediction: (lambda value: len(value.timeline.graph), gather_prediction),
    Difference: (lambda value: sum(len(side.graph) for side in value.sides), _of_difference),
}
