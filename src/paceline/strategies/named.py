"""Strategies by name: those of this folder, and those that installed packages add.

`workers(count=4)` is the strategy of `workers.py` with its field `count` set. A package adds its
own by an entry point of the group `paceline.strategies`: the strategy's name and its module, whose
last part is that name.
"""

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, is_dataclass
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from math import isfinite
from pathlib import Path
from typing import Any, get_origin, get_type_hints

from paceline.strategies.strategy import Strategy, StrategyError, settings_of

_GROUP = "paceline.strategies"
_NOT_STRATEGIES = {
    "__init__",
    "accuracy",
    "applying",
    "coded",
    "merging",
    "named",
    "neighbours",
    "norm_pairs",
    "plan",
    "recorded_pairs",
    "remodelling",
    "seldom",
    "sends",
    "sparse",
    "staleness",
    "strategy",
    "torch_applied",
    "torch_border_times",
    "torch_circulant_times",
    "torch_codec_times",
    "torch_crowded_codecs",
}


def known() -> tuple[str, ...]:
    """The names of all strategies."""
    return tuple(sorted(_modules()))


def kind_of(name: str) -> type[Strategy]:
    """The class of that name; an error with the nearest known name where there is none."""
    if name not in _modules():
        near = get_close_matches(name, known(), 1)
        raise StrategyError(
            f"no strategy is called {name!r}"
            + (f"; did you mean {near[0]}?" if near else ".")
            + f" Known are {', '.join(known())}"
        )
    module = import_module(_modules()[name])
    return _of_module(module.__dict__.values(), module.__name__)


def strategy(name: str, /, **settings: Any) -> Strategy:
    """The strategy of that name with those settings."""
    kind = kind_of(name)
    allowed = {f.name: f for f in settings_of(kind)}
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
    return kind(**settings)


def _check_types(name: str, kind: type[Strategy], settings: Mapping[str, Any]) -> None:
    types = get_type_hints(kind)
    for setting, value in settings.items():
        wanted = types[setting]
        fits = isinstance(value, (int, float) if wanted is float else get_origin(wanted) or wanted)
        if not fits or (isinstance(value, bool) and wanted is not bool):
            raise StrategyError(f"{name}: {setting} must be {wanted.__name__}, not {value!r}")
        if any(isinstance(v, float) and not isfinite(v) for v in _values(value)):
            raise StrategyError(f"{name}: {setting} must be finite, not {value!r}")


def _values(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


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
        if keyword.arg in settings:
            raise StrategyError(f"{text!r} gives {keyword.arg} twice; give it once")
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


@cache
def _modules() -> Mapping[str, str]:
    """The module of each strategy."""
    here = (p.stem for p in Path(__file__).parent.glob("*.py"))
    ours = {name: f"{_GROUP}.{name}" for name in here if name not in _NOT_STRATEGIES}
    return {**_added(ours), **ours}


def _added(ours: Mapping[str, str]) -> dict[str, str]:
    """What other packages bring."""
    found = {}
    for point in entry_points(group=_GROUP):
        if point.name in ours or point.module.rpartition(".")[2] != point.name:
            raise StrategyError(
                f"the entry point {point.name} = {point.value} of {_GROUP} must be called as the "
                "last part of its module, by a name that is not yet taken; rename it in the "
                "package that brings it"
            )
        found[point.name] = point.module
    return found


def _of_module(values: Iterable[Any], module: str) -> type[Strategy]:
    found: Sequence[type[Strategy]] = [
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
