"""The server: tools named as the commands are, with the types of their answers."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from paceline import __version__
from paceline.assist import answers, commands
from paceline.errors import PacelineError

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

READS: Final[dict[str, Callable[..., Any]]] = {
    "show": answers.show,
    "predict": answers.predicted,
    "diff": answers.differed,
}
_WITH_ROOM: Final[dict[str, tuple[str, Callable[..., Any]]]] = {
    "search": ("paceline.search", commands.searched),
    "history": ("paceline.history", commands.remembered),
}
"""Offered where the room is there."""
RUNS: Final[dict[str, Callable[..., Any]]] = {"record": commands.recorded}
_ABOUT: Final = (
    "Paceline says where a distributed training step's time goes, predicts what a change brings, "
    "and why one run is slower than another. Runs are folders that `paceline record` or "
    "`paceline import` made."
)


class AssistError(PacelineError):
    """The server cannot be made."""


def server(*, allow_run: bool = False) -> "MCPServer[Any]":
    """A server that reads runs; with `allow_run` it also starts jobs."""
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp.types import ToolAnnotations
    except ImportError as error:
        raise AssistError(
            "the package mcp (2 or newer) is not installed: pip install 'paceline[mcp]'"
        ) from error
    made: MCPServer[Any] = MCPServer("paceline", instructions=_ABOUT, version=__version__)
    present = {name: f for name, (room, f) in _WITH_ROOM.items() if find_spec(room) is not None}
    for name, function in {**READS, **present}.items():
        hint = ToolAnnotations(read_only_hint=True, open_world_hint=False)
        made.tool(name, annotations=hint)(_told(function))
    if allow_run:
        for name, function in RUNS.items():
            made.tool(name, annotations=ToolAnnotations(read_only_hint=False))(_told(function))
    return made


def _told(function: Callable[..., Any]) -> Callable[..., Any]:
    """Our errors reach the assistant in words."""
    from functools import wraps

    from mcp.server.mcpserver.exceptions import ToolError

    @wraps(function)
    def asked(*arguments: Any, **settings: Any) -> Any:
        try:
            return function(*arguments, **settings)
        except PacelineError as error:
            raise ToolError(str(error)) from error

    return asked
