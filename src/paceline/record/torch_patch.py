"""Wrap attributes of live classes and modules, and put the originals back."""

from collections.abc import Callable
from functools import wraps
from typing import Any


class Patches:
    """Wrappers in place; `undo` removes them, last first."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []

    def wrap(self, owner: Any, name: str, wrapped: Callable[[Any], Any]) -> None:
        original = getattr(owner, name)
        inherited = name not in vars(owner)
        self._undo.append((owner, name, None if inherited else original))
        setattr(owner, name, wraps(original)(wrapped(original)))

    def undo(self) -> None:
        while self._undo:
            owner, name, original = self._undo.pop()
            if original is None:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
