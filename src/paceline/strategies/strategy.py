"""`Strategy`: one idea as a change of a graph; found by the name of its file, written as text.

`workers(count=4)` is the strategy of `workers.py` with its field `count` set.
"""

import ast
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, get_type_hints

from paceline.errors import PacelineError
from paceline.graph import Graph
from paceline.graph.condense import Grain

_NOT_STRATEGIES = {"__init__", "strategy"}


class StrategyError(PacelineError):
    """A strategy that is not known, not written as one, or does not fit the job."""


class Strategy(ABC):
    """A frozen dataclass whose fields are the settings."""

    grain: ClassVar[Grain] = Grain.EVENT  # of the recorded step that it changes

    @abstractmethod
    def transform(self, graph: Graph) -> Graph:
        """The graph of the job with this change; durations that are then unknown are unpriced."""

    def __str__(self) -> str:
        told = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self))  # type: ignore[arg-type]
        return f"{_name(type(self))}({told})" if told else _name(type(self))


def transformed(graph: Graph, plan: Iterable[Strategy]) -> Graph:
    """The graph after every change in turn."""
    for change in plan:
        graph = change.transform(graph)
    return graph


def known() -> tuple[str, ...]:
    """The names of all strategies."""
    return tuple(
        sorted(p.stem for p in Path(__file__).parent.glob("*.py") if p.stem not in _NOT_STRATEGIES)
    )


def strategy(name: str, /, **settings: Any) -> Strategy:
    """The strategy of that name with those settings."""
    kind = _kind(name)
    allowed = {f.name: f for f in fields(kind)}
    wrong = sorted(set(settings) - set(allowed))
    if wrong:
        raise StrategyError(
            f"{name} has no setting {wrong[0]!r}; it has {', '.join(allowed) or 'none'}"
        )
    missing = [
        f.name
        for f in allowed.values()
        if f.default is MISSING and f.default_factory is MISSING and f.name not in settings
    ]
    if missing:
        raise StrategyError(f"{name} needs {', '.join(missing)}, as in {name}({missing[0]}=...)")
    _check_types(name, kind, settings)
    made = kind(**settings)
    assert isinstance(made, Strategy)
    return made


def _check_types(name: str, kind: type, settings: Mapping[str, Any]) -> None:
    types = get_type_hints(kind)
    for setting, value in settings.items():
        wanted = types[setting]
        fits = isinstance(value, (int, float) if wanted is float else wanted)
        if not fits or (isinstance(value, bool) and wanted is not bool):
            raise StrategyError(f"{name}: {setting} must be {wanted.__name__}, not {value!r}")


def parse(text: str) -> Strategy:
    """A strategy written as text: `buckets(size_bytes=4194304)`, or a bare name."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise _unreadable(text) from error
    if isinstance(tree, ast.Name):
        return strategy(tree.id)
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name) or tree.args:
        raise _unreadable(text)
    settings = {}
    for keyword in tree.keywords:
        if keyword.arg is None:
            raise _unreadable(text)
        settings[keyword.arg] = _value(keyword.value, text)
    return strategy(tree.func.id, **settings)


def _value(node: ast.expr, text: str) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError as error:
        raise _unreadable(text) from error


def _unreadable(text: str) -> StrategyError:
    return StrategyError(
        f"{text!r} is not a strategy; write NAME or NAME(SETTING=VALUE, ...), "
        "as in workers(count=4)"
    )


def _kind(name: str) -> type:
    if name not in known():
        near = get_close_matches(name, known(), 1)
        raise StrategyError(
            f"no strategy is called {name!r}"
            + (f"; did you mean {near[0]}?" if near else "")
            + f" Known are {', '.join(known())}"
        )
    module = import_module(f"paceline.strategies.{name}")
    return _of_module(module.__dict__.values(), module.__name__)


def _of_module(values: Iterable[Any], module: str) -> type:
    found: Sequence[type] = [
        value
        for value in values
        if isinstance(value, type)
        and issubclass(value, Strategy)
        and value.__module__ == module
        and is_dataclass(value)
    ]
    if len(found) != 1:
        raise StrategyError(f"{module} defines {len(found)} strategies; it must define one")
    return found[0]


def _name(kind: type) -> str:
    return kind.__module__.rpartition(".")[2]
