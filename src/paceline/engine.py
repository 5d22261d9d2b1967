"""Which engine is in use: the native core where it was built, else the same as WebAssembly where
its module and the package wasmtime are there, else plain Python.

For comparison and for bug reports, `PACELINE_ENGINE=webassembly` turns the native core off, and
`PACELINE_ENGINE=python` both. WebAssembly replays; what else is native is then plain Python.
"""

import os
from functools import cache
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paceline.wasm import Core


@cache
def native() -> ModuleType | None:
    """The compiled core, or None where it was not built or is turned off."""
    if _asked() in ("python", "webassembly"):
        return None
    try:
        return import_module("paceline._core")
    except ModuleNotFoundError:
        return None


@cache
def webassembly() -> "Core | None":
    """The WebAssembly core, or None where it was not built, cannot run or is turned off."""
    if _asked() == "python" or not module_file().is_file() or find_spec("wasmtime") is None:
        return None
    from paceline.wasm import Core

    return Core(module_file())


def replaying() -> Any:
    """The core that replays: native, else WebAssembly; None where plain Python does."""
    return native() or webassembly()


def module_file() -> Path:
    """The engine as WebAssembly, which the page carries: where it is, once `make wasm` built it."""
    return Path(__file__).parent / "wasm" / "engine.wasm"


def engine_name() -> str:
    """What computes, and where it is plain Python, why."""
    if core := native():
        return f"native (compiler {core.compiler})"
    if webassembly() is not None:
        return f"WebAssembly (wasmtime {metadata.version('wasmtime')})"
    return "plain Python (turned so)" if _asked() == "python" else f"plain Python ({_lacking()})"


def _lacking() -> str:
    if not module_file().is_file():
        return "no native core, no WebAssembly module"
    return "no native core, and wasmtime is not installed: pip install 'paceline[universal]'"


def _asked() -> str | None:
    return os.environ.get("PACELINE_ENGINE")
