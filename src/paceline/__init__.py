"""Paceline: what should I change to make my distributed training faster, and by how much?

The loop is `record -> graph -> replay -> strategies -> search -> apply -> verify -> report`.
Names below are loaded on first use, so `import paceline` stays fast and needs no torch.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "Graph": "paceline.graph",
    "PacelineError": "paceline.errors",
}

_ROOMS = {"record"}  # rooms whose name is also their verb: `paceline.record("runs/a")`

__all__ = ["__version__", *sorted({*_HOME, *_ROOMS})]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name in _ROOMS:
        return import_module(f"paceline.{name}")
    raise AttributeError(f"module 'paceline' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
