"""Rooms whose name is also their verb: `paceline.predict(graph)` calls `predict` of the room."""

import sys
from types import ModuleType
from typing import Any


class CallableRoom(ModuleType):
    """A room that is called as the function of its own name."""

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        verb = self.__name__.rpartition(".")[2]
        return getattr(self, verb)(*arguments, **settings)


def callable_room(name: str) -> None:
    """Make the room of that module name callable."""
    sys.modules[name].__class__ = CallableRoom
