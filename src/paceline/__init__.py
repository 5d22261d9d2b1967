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
    "AppliedRun": "paceline.trial",
    "Cluster": "paceline.cluster",
    "Effect": "paceline.strategies",
    "Goal": "paceline.search",
    "Grain": "paceline.graph.condense",
    "Graph": "paceline.graph",
    "Lab": "paceline.lab",
    "LabError": "paceline.lab",
    "Machine": "paceline.cluster.machine",
    "PacelineError": "paceline.errors",
    "Place": "paceline.trial",
    "Prediction": "paceline.predict",
    "Question": "paceline.predict",
    "TuneRequest": "paceline.tune",
    "Tuned": "paceline.tune",
    "Where": "paceline.tune",
    "applied": "paceline.strategies.torch_applied",
    "condense": "paceline.graph.condense",
    "diff": "paceline.compare",
    "here": "paceline.trial",
    "import_traces": "paceline.trace.importing",
    "in_lab": "paceline.trial",
    "load": "paceline.trace.runs",
    "load_cluster": "paceline.cluster",
    "load_plan": "paceline.strategies",
    "over_tcp": "paceline.cluster.tcp",
    "parse": "paceline.strategies",
    "run_to_the_end": "paceline.trial",
    "save": "paceline.graph",
    "show": "paceline.report.show",
    "side_of": "paceline.compare",
    "strategy": "paceline.strategies",
    "write_perfetto": "paceline.report",
}

_CALLED = {"load": "open_run", "load_cluster": "load", "save": "save_graph"}  # in its own room
_ROOMS = {"predict", "record", "replay", "report", "search", "tune"}
"""Rooms whose name is also their verb."""

__all__ = ["__version__", *sorted({*_HOME, *_ROOMS})]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), _CALLED.get(name, name))
    if name in _ROOMS:
        return import_module(f"paceline.{name}")
    raise AttributeError(f"module 'paceline' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
