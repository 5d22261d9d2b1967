"""Loaded by every Python process that a test starts (tests/conftest.py puts this folder first on
PYTHONPATH), so that its time goes to what is tested.

Python's collector else looks through all that torch brings again and again while it is imported,
and once more as the process ends: a third of what a small job costs.
"""

import atexit
import gc
import importlib
import importlib.util
import sys
from pathlib import Path

HERE = Path(__file__).parent

gc.set_threshold(1_000_000)
atexit.register(gc.freeze)


def _chain() -> None:
    """Run the `sitecustomize` that this one stands in front of."""
    sys.path[:] = [entry for entry in sys.path if not entry or Path(entry) != HERE]
    ours = sys.modules.pop("sitecustomize")
    if importlib.util.find_spec("sitecustomize") is None:
        sys.modules["sitecustomize"] = ours
    else:
        importlib.import_module("sitecustomize")


_chain()
