"""The time of a program at rates that were measured, by replay of its graph."""

from paceline.replay import replay
from paceline.weave.emit import as_graph
from paceline.weave.program import Program
from paceline.weave.traffic import Rates


def replayed_s(program: Program, rates: Rates) -> float:
    """Seconds of one run of the program alone."""
    return 1e-9 * replay(as_graph(program, rates)).step_ns
