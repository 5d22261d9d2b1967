"""The suite by name: a file in `workloads/` is a workload."""

import pkgutil
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from typing import Final

from paceline.bench.errors import BenchError
from paceline.bench.workload import Workload

_PLACE: Final = "paceline.bench.workloads"
_PREFIX: Final = "torch_"


def names() -> tuple[str, ...]:
    """All workloads, in order; needs no torch."""
    found = pkgutil.iter_modules(import_module(_PLACE).__path__)
    return tuple(sorted(each.name.removeprefix(_PREFIX) for each in found))


def module_of(name: str) -> str:
    """What `python -m` starts."""
    return f"{_PLACE}.{_PREFIX}{_known(name)}"


def named(name: str) -> Workload:
    """The workload; an error where there is none of the name, or a package is missing."""
    module = module_of(name)
    if find_spec("torch") is None:
        raise BenchError(
            "workloads are trainings in torch; install it: pip install paceline[torch]"
        )
    found: Workload = import_module(module).WORKLOAD
    return found


def chosen(wanted: Sequence[str]) -> tuple[str, ...]:
    """Those that are asked for, all where none is; an error names the nearest to one unknown."""
    return tuple(_known(name) for name in wanted) or names()


def missing(found: Workload) -> tuple[str, ...]:
    """Packages that the workload needs and this machine lacks."""
    return tuple(name for name in found.needs if find_spec(name) is None)


def _known(name: str) -> str:
    spelled = name.replace("-", "_")
    if spelled in names():
        return spelled
    near = get_close_matches(spelled, names(), 1, 0.4)
    said = f"; did you mean {near[0]}?" if near else "."
    raise BenchError(f"no workload is called {name!r}{said} There are {', '.join(names())}")
