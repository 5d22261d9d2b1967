"""A small job on a slow network, which searches share."""

from pathlib import Path

import pytest

from paceline.cluster import Cluster, Host, Link
from paceline.cluster.files import device
from paceline.graph import Graph, load_graph
from paceline.graph.synthetic import Parallel, TrainingJob, training


def cluster(workers: int = 2, bytes_per_s: float = 5e7) -> Cluster:
    hosts = tuple(Host(f"h{i}", device("epyc-2c")) for i in range(workers))
    return Cluster(hosts, Link.both_ways(bytes_per_s))


@pytest.fixture(scope="session")
def job() -> Graph:
    return training(TrainingJob(Parallel.DDP, workers=2, steps=3))


@pytest.fixture(scope="session")
def lan() -> Cluster:
    return cluster()


@pytest.fixture(scope="session")
def recorded() -> Graph:
    """An MLP of two workers, as it was recorded for the benchmarks."""
    return load_graph(Path(__file__).parents[2] / "benchmarks" / "results" / "strategies" / "mlp")
