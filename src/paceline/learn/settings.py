"""Frozen dataclasses written as text: `dirichlet(concentration=0.1)`, `fedavg(lr=0.05)`."""

import ast
from collections.abc import Mapping
from dataclasses import MISSING, fields
from difflib import get_close_matches
from typing import Any, TypeVar

from paceline.learn.errors import LearnError

T = TypeVar("T")


def parsed(text: str, known: Mapping[str, type[T]], what: str) -> T:
    """The value that the text names, out of the known ones; `what` they are, for messages."""
    name, settings = _call(text, what)
    if name not in known:
        near = get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]}?" if near else "."
        raise LearnError(f"no {what} is called {name!r}{hint} Known are {', '.join(sorted(known))}")
    kind = known[name]
    allowed = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]
    for wrong in settings.keys() - allowed.keys():
        has = ", ".join(allowed) or "none"
        raise LearnError(f"{name} has no setting {wrong!r}; it has {has}")
    for setting, value in settings.items():
        _check(name, setting, value, allowed[setting].default)
    return kind(**settings)


def spelled(value: Any, known: Mapping[str, type[Any]]) -> str:
    """The shortest text that `parsed` reads back: settings that are not the defaults."""
    name = next(name for name, kind in known.items() if type(value) is kind)
    told = [f for f in fields(value) if getattr(value, f.name) != f.default]
    return f"{name}({', '.join(f'{f.name}={getattr(value, f.name)!r}' for f in told)})"


def _call(text: str, what: str) -> tuple[str, dict[str, Any]]:
    wrong = LearnError(f"{text!r} is no {what}; write NAME or NAME(SETTING=VALUE, ...)")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        if isinstance(tree, ast.Name):
            return tree.id, {}
        if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name) or tree.args:
            raise wrong
        if any(word.arg is None for word in tree.keywords):
            raise wrong
        return tree.func.id, {str(w.arg): ast.literal_eval(w.value) for w in tree.keywords}
    except (SyntaxError, ValueError) as error:
        raise wrong from error


def _check(name: str, setting: str, value: Any, default: Any) -> None:
    """A setting is of its default's type; a whole number will do for any number."""
    if default is MISSING:
        return
    wanted = (int, float) if isinstance(default, float) else type(default)
    fits = isinstance(value, wanted) and isinstance(value, bool) == isinstance(default, bool)
    if not fits:
        raise LearnError(f"{name}: {setting} must be {type(default).__name__}, not {value!r}")
    if isinstance(value, tuple) and not all(type(each) in (int, float) for each in value):
        raise LearnError(f"{name}: {setting} must be numbers, not {value!r}")
