"""The time of a program on a cluster, by replay of its ops: what the autotuner prunes by where a
cluster is at hand."""

from paceline.cluster import Cluster
from paceline.cost import price
from paceline.replay import replay
from paceline.weave.emit import as_graph
from paceline.weave.program import Program


def replayed_s(program: Program, cluster: Cluster) -> float:
    """Seconds of one run of the program alone."""
    return 1e-9 * replay(price(as_graph(program), cluster)).step_ns
