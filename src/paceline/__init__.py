"""Paceline: what should I change to make my distributed training faster, and by how much?

    import paceline

    run = paceline.load("runs/a")                        # a recording, as a graph
    cluster = paceline.load_cluster("cluster.yaml")
    paceline.show(paceline.predict(run, ["workers(count=8)"], cluster))

The line is `record -> graph -> replay -> strategies -> search -> apply -> verify -> report`. Names
below are loaded on first use, so `import paceline` stays fast and needs no torch.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "Cluster": "paceline.cluster",
    "Goal": "paceline.search",
    "Grain": "paceline.graph.condense",
    "Graph": "paceline.graph",
    "Machine": "paceline.cluster.machine",
    "PacelineError": "paceline.errors",
    "Prediction": "paceline.predict",
    "Question": "paceline.predict",
    "applied": "paceline.strategies.torch_applied",
    "condense": "paceline.graph.condense",
    "load": "paceline.trace.runs",
    "load_cluster": "paceline.cluster",
    "parse": "paceline.strategies",
    "show": "paceline.report.show",
    "strategy": "paceline.strategies",
}

_CALLED = {"load": "open_run", "load_cluster": "load"}  # in the room it comes from
_ROOMS = {"predict", "record", "replay", "search"}  # rooms whose name is also their verb

__all__ = ["__version__", *sorted({*_HOME, *_ROOMS})]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), _CALLED.get(name, name))
    if name in _ROOMS:
        return import_module(f"paceline.{name}")
    raise AttributeError(f"module 'paceline' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
