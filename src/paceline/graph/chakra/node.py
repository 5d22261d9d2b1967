"""One node of a Chakra trace, its attributes as checked plain values."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, TypeVar

from paceline.errors import FileError
from paceline.graph.chakra.stream import read_nodes

Kind = TypeVar("Kind", bound=IntEnum)
INT32, INT64 = 2**31 - 1, 2**63 - 1


def nodes_of(rank: int, path: Path) -> "list[Node]":
    """The nodes of one rank's file."""
    return [Node(rank, m, _attributes(m), path) for m in read_nodes(path)]


@dataclass(frozen=True)
class Node:
    """One node with its attributes as plain values, and the file it came from."""

    rank: int
    message: Any
    attributes: Mapping[str, Any]
    path: Path

    @property
    def own(self) -> bool:
        """Whether Paceline wrote it."""
        return "paceline.lane" in self.attributes

    def integer(self, name: str, default: int, low: int = 0, high: int = INT32) -> int:
        """A whole-number attribute within limits."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int) or not low <= value <= high:
            raise FileError(
                f"{self}: attribute {name} is {value!r}, expected a whole number "
                f"from {low} to {high}"
            )
        return int(value)

    def member(self, name: str, kinds: type[Kind], default: int = 0) -> Kind:
        """An attribute that is the number of a kind."""
        value = self.attributes.get(name, default)
        try:
            return kinds(value)
        except ValueError as error:
            raise FileError(
                f"{self}: attribute {name} is {value!r}, which is no {kinds.__name__}"
            ) from error

    def text(self, name: str) -> str:
        value = self.attributes.get(name, "")
        if not isinstance(value, str):
            raise FileError(f"{self}: attribute {name} is {value!r}, expected text")
        return value

    def items(self, name: str) -> list[Any]:
        value = self.attributes.get(name, [])
        if not isinstance(value, list):
            raise FileError(f"{self}: attribute {name} is {value!r}, expected a list")
        return value

    def __str__(self) -> str:
        return f"node {self.message.id} {self.message.name!r} of rank {self.rank} in {self.path}"


def _attributes(message: Any) -> dict[str, Any]:
    found = {}
    for attribute in message.attr:
        kind = attribute.WhichOneof("value")
        if kind is not None:
            value = getattr(attribute, kind)
            found[attribute.name] = list(value.values) if kind.endswith("_list") else value
    return found
