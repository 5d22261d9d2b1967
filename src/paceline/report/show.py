"""`show`: a graph, a prediction or a difference, printed for a person."""

from typing import Any

from paceline.compare import Difference
from paceline.graph import Graph
from paceline.predict import Prediction
from paceline.replay import replay


def show(what: Graph | Prediction | Difference, top: int = 8) -> None:
    """Print where a graph's step goes, how long a predicted step takes and why, or why one run is
    slower than another."""
    console = _console()
    if isinstance(what, Difference):
        from paceline.report.text import show_difference

        show_difference(what, console, top)
        return
    if isinstance(what, Prediction):
        from paceline.report.text import prediction_lines

        console.print("\n".join(prediction_lines(what)), markup=False, soft_wrap=True)
        return
    from paceline.report.run import summarise_run
    from paceline.report.text import show_run

    show_run(summarise_run(replay(what)), console, top=top)


def _console() -> Any:
    from rich.console import Console

    return Console(highlight=False)
