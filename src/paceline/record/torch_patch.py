"""Wrap attributes of live classes and modules, and put the originals back."""

from collections.abc import Callable
from functools import wraps
from typing import Any


class Patches:
    """Wrappers in place; `undo` removes them, last first."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []

    def wrap(self, owner: Any, name: str, wrapped: Callable[[Any], Any]) -> None:
        """Put `wrapped(original)` in the place of an attribute that `owner` itself defines."""
        self._undo.append((owner, name, vars(owner)[name]))
        original = getattr(owner, name)
        setattr(owner, name, wraps(original)(wrapped(original)))

    def undo(self) -> None:
        """Put back the very objects that were there: native methods lose `self` otherwise."""
        while self._undo:
            owner, name, original = self._undo.pop()
            setattr(owner, name, original)
