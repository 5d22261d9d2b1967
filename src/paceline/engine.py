"""Which engine is in use: the native core where it was built, else plain Python.

`PACELINE_ENGINE=python` turns the native core off, for comparison and for bug reports.
"""

import os
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType


@cache
def native() -> ModuleType | None:
    """The compiled core, or None where it was not built or is turned off."""
    if _off():
        return None
    try:
        return import_module("paceline._core")
    except ModuleNotFoundError:
        return None


def module_file() -> Path:
    """The engine as WebAssembly, which the page carries: where it is, once `make wasm` built it."""
    return Path(__file__).parent / "wasm" / "engine.wasm"


def engine_name() -> str:
    """What computes, and where it is plain Python, why."""
    if core := native():
        return f"native (compiler {core.compiler})"
    return "plain Python (native core turned off)" if _off() else "plain Python (no native core)"


def _off() -> bool:
    return os.environ.get("PACELINE_ENGINE") == "python"
