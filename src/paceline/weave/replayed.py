"""The time of a program by replay of its graph: on a cluster, or at rates that were measured."""

from paceline.cluster import Cluster
from paceline.cost import price
from paceline.replay import replay
from paceline.weave.emit import as_graph
from paceline.weave.program import Program
from paceline.weave.traffic import Rates


def replayed_s(program: Program, prices: Cluster | Rates) -> float:
    """Seconds of one run of the program alone."""
    if isinstance(prices, Rates):
        return 1e-9 * replay(as_graph(program, prices)).step_ns
    return 1e-9 * replay(price(as_graph(program), prices)).step_ns
