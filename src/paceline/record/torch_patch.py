"""Wrap attributes of live classes and modules, and put the originals back."""

from collections.abc import Callable
from functools import wraps
from typing import Any

_INHERITED = object()


class Patches:
    """Wrappers in place; `undo` removes them, last first."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []

    def wrap(self, owner: Any, name: str, wrapped: Callable[[Any], Any]) -> None:
        """Put `wrapped(original)` in the place of an attribute that `owner` defines or inherits."""
        self._undo.append((owner, name, vars(owner).get(name, _INHERITED)))
        original = getattr(owner, name)
        setattr(owner, name, wraps(original)(wrapped(original)))

    def undo(self) -> None:
        """Put back the very objects that were there: native methods lose `self` otherwise."""
        while self._undo:
            owner, name, original = self._undo.pop()
            if original is _INHERITED:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
