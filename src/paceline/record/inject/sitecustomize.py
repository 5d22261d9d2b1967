"""Loaded by every Python process of a job: starts recorder, plan or trial once torch is imported.

`paceline record`, `apply`, `tune` and `learn noise` put this folder first on PYTHONPATH; which of
them are started, the environment says. The job's own `sitecustomize`, if any, still runs. Nothing
else happens in processes that never import torch's optimizers.
"""

import importlib
import importlib.util
import os
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TRIGGER = "torch.optim.optimizer"
STARTED_BY = {
    "PACELINE_PLAN": "paceline.strategies.torch_applied",
    "PACELINE_TRIAL": "paceline.trial.torch_trial",
    "PACELINE_GRADIENTS": "paceline.trial.torch_gradients",
    "PACELINE_RECORD": "paceline.record.torch_job",
}
"""What each variable of the environment starts. The recorder stands in front of the others and goes
before them: all take their wrappers off in the reverse order."""


class AfterTorch(MetaPathFinder):
    """Calls `then` when `TRIGGER` has been imported, and steps aside."""

    def __init__(self, then: Any) -> None:
        self._then = then

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != TRIGGER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = ThenLoader(spec.loader, self._then)
        return spec


class ThenLoader(Loader):
    """Another loader, and a call after it."""

    def __init__(self, inner: Any, then: Any) -> None:
        self._inner = inner
        self._then = then

    def create_module(self, spec: ModuleSpec) -> Any:
        return self._inner.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self._inner.exec_module(module)
        self._then()


def start() -> None:
    """Import what is asked for from where this file lies, installed in the job's Python or not."""
    if importlib.util.find_spec("paceline") is None:
        _make_importable()
    for variable, module in STARTED_BY.items():
        if variable in os.environ:
            importlib.import_module(module).start_from_environment()


def _make_importable() -> None:
    home = HERE.parents[1]
    spec = importlib.util.spec_from_file_location(
        "paceline", home / "__init__.py", submodule_search_locations=[str(home)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"no paceline at {home}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["paceline"] = module
    spec.loader.exec_module(module)


def _chain() -> None:
    """Run the `sitecustomize` that this one stands in front of."""
    sys.path[:] = [entry for entry in sys.path if entry and Path(entry) != HERE]
    ours = sys.modules.pop("sitecustomize", None)
    if importlib.util.find_spec("sitecustomize") is not None:
        importlib.import_module("sitecustomize")
    elif ours is not None:
        sys.modules["sitecustomize"] = ours


if STARTED_BY.keys() & os.environ.keys():
    sys.meta_path.insert(0, AfterTorch(start))
    _chain()
