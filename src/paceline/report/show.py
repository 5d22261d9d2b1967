"""`show`: what Paceline found, printed for a person as the command line prints it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from paceline.compare import Difference
from paceline.graph import Graph
from paceline.predict import Prediction
from paceline.replay import Timeline, replay
from paceline.report.overview import overview_of
from paceline.tune import Tuned

if TYPE_CHECKING:
    from rich.console import Console

Showable: TypeAlias = Graph | Timeline | Prediction | Difference | Tuned


def show(what: Showable, top: int = 8) -> None:
    """Print where a graph's or a timeline's step goes, how long a predicted step takes and why, why
    one run is slower than another, or what came of tuning; tables of at most `top` rows."""
    printed = next((p for kind, p in _PRINTED.items() if isinstance(what, kind)), None)
    if printed is None:
        known = ", ".join(kind.__name__ for kind in _PRINTED)
        raise TypeError(f"show() was given a {type(what).__name__}, and shows {known}")
    printed(what, _console(), top)


def _graph(graph: Graph, console: "Console", top: int) -> None:
    _timeline(replay(graph), console, top)


def _timeline(timeline: Timeline, console: "Console", top: int) -> None:
    from paceline.report.text.overview import show_overview

    show_overview(overview_of(timeline, top), console, top)


def _prediction(found: Prediction, console: "Console", top: int) -> None:
    from paceline.report.text.prediction import prediction_lines

    console.print("\n".join(prediction_lines(found)), markup=False, soft_wrap=True)


def _difference(found: Difference, console: "Console", top: int) -> None:
    from paceline.report.text.difference import show_difference

    show_difference(found, console, top)


def _tuned(found: Tuned, console: "Console", top: int) -> None:
    from paceline.report.text.tuned import tuned_lines

    for line in tuned_lines(found):
        console.print(line, markup=False, soft_wrap=True)


_PRINTED: Final[dict[type, Callable[[Any, "Console", int], None]]] = {
    Graph: _graph,
    Timeline: _timeline,
    Prediction: _prediction,
    Difference: _difference,
    Tuned: _tuned,
}


def _console() -> "Console":
    from rich.console import Console

    return Console(highlight=False)
