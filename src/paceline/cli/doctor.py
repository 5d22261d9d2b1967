"""Print all that a bug report needs: versions, engine, machine.

Nothing private: no user name, no path, no environment beyond Paceline's own variables.
"""

import argparse
import os
import platform
from importlib import metadata
from typing import Any

from paceline import __version__
from paceline.cli import Shown
from paceline.engine import engine_name

_LIBRARIES = ("numpy", "pyarrow", "msgspec", "rich", "torch", "highspy", "ortools", "protobuf")


def configure(parser: argparse.ArgumentParser) -> None:
    """`doctor` takes no arguments of its own."""


def run(options: argparse.Namespace) -> Shown:
    facts = diagnosis()
    return Shown(facts, lambda console: _render(facts, console))


def diagnosis() -> dict[str, Any]:
    return {
        "paceline": __version__,
        "engine": engine_name(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "load": list(os.getloadavg()),
        "libraries": {name: _version(name) for name in _LIBRARIES},
        "variables": {k: v for k, v in os.environ.items() if k.startswith("PACELINE_")},
    }


def _version(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def _render(facts: dict[str, Any], console: Any) -> None:
    for key, value in facts.items():
        if isinstance(value, dict):
            console.print(f"{key}:")
            for name, text in value.items():
                console.print(f"  {name}: {text or 'not installed'}")
        else:
            console.print(f"{key}: {value}")
