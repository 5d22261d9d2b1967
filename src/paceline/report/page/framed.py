"""A notebook's value as a whole page, to be shown in a frame: it stays in the notebook's file."""

from collections.abc import Callable
from typing import Any, Final

from paceline.compare import Difference
from paceline.errors import FileError
from paceline.predict import Prediction
from paceline.replay import Timeline
from paceline.report.page.contents import Contents, PlanAlone
from paceline.report.page.gather import PageRequest, gather, gather_prediction
from paceline.report.page.plan import plan_alone
from paceline.report.page.write import page_of, template
from paceline.strategies import Plan

MOST_OPS: Final = 100_000
"""Of all that is drawn: a notebook keeps the page of every cell that showed one."""


def framed(value: Any) -> str | None:
    """The page of a timeline, a prediction, a difference or a plan; None for others, for what has
    no op or too many, and where the page was not built into this installation."""
    kind = next((kind for kind in _PAGES if isinstance(value, kind)), None)
    if kind is None:
        return None
    ops = _OPS.get(kind)
    if ops is not None and not 0 < ops(value) <= MOST_OPS:
        return None
    try:
        shell = template()
    except FileError:
        return None
    return page_of(_PAGES[kind](value), shell)


def _of_timeline(value: Timeline) -> Contents:
    return gather(PageRequest(str(value.graph.meta.get("run") or "timeline"), value.graph))


def _of_difference(value: Difference) -> Contents:
    before, after = value.sides
    asked = PageRequest(
        f"{value.before} and {value.after}",
        before.graph,
        other=after.graph,
        other_name=value.after,
        difference=value,
    )
    return gather(asked)


_PAGES: Final[dict[type, Callable[[Any], Contents | PlanAlone]]] = {
    Timeline: _of_timeline,
    Prediction: gather_prediction,
    Difference: _of_difference,
    Plan: plan_alone,
}
_OPS: Final[dict[type, Callable[[Any], int]]] = {
    Timeline: lambda value: len(value.graph),
    Prediction: lambda value: len(value.timeline.graph),
    Difference: lambda value: sum(len(side.graph) for side in value.sides),
}
"""How many are drawn; a plan holds no run."""
