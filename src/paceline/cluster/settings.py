"""`--set link.rate=100Gbps`: one change to a cluster by a dotted path, as a pure function.

A path walks the cluster's document (see `files.to_document`); `hosts.*.device` means every host.
"""

from copy import deepcopy
from typing import Any

import yaml

from paceline.cluster.cluster import Cluster
from paceline.cluster.files import from_document, to_document
from paceline.cluster.quantities import ClusterError

_BOTH = {"rate": ("up", "down"), "background": ("background_up", "background_down")}
"""Settings that stand for both directions, and what they replace."""


def with_settings(cluster: Cluster, settings: list[str]) -> Cluster:
    """The cluster with each `path=value` applied in turn."""
    document = to_document(cluster)
    for text in settings:
        path, found, value = text.partition("=")
        if not found or not path.strip():
            raise ClusterError(f"setting {text!r} is no `path=value`, such as link.rate=100Gbps")
        document = _changed(document, path.strip().split("."), yaml.safe_load(value), text)
    return from_document(document)


def _changed(document: dict[str, Any], path: list[str], value: Any, text: str) -> dict[str, Any]:
    made = deepcopy(document)
    for owner in _owners(made, path[:-1], text):
        _put(owner, path[-1], value, text)
    return made


def _owners(node: Any, path: list[str], text: str) -> list[Any]:
    """The mappings or lists that a path without its last part leads to."""
    if not path:
        return [node]
    part, rest = path[0], path[1:]
    if isinstance(node, list):
        chosen = node if part == "*" else [node[_index(part, node, text)]]
    elif isinstance(node, dict) and part in node:
        chosen = [node[part]]
    else:
        raise _nowhere(part, node, text)
    return [owner for child in chosen for owner in _owners(child, rest, text)]


def _put(owner: Any, key: str, value: Any, text: str) -> None:
    if isinstance(owner, list):
        for index in range(len(owner)) if key == "*" else [_index(key, owner, text)]:
            owner[index] = value
    elif isinstance(owner, dict):
        for replaced in _BOTH.get(key, ()):
            owner.pop(replaced, None)
        if "rate" in owner and key in ("up", "down"):
            both = owner.pop("rate")
            owner["up"], owner["down"] = both, both
        owner[key] = value
    else:
        raise _nowhere(key, owner, text)


def _index(part: str, node: list[Any], text: str) -> int:
    if not part.isdigit() or int(part) >= len(node):
        raise ClusterError(f"setting {text!r}: {part!r} is no place in a list of {len(node)}; "
                           f"give 0 to {len(node) - 1}, or *")  # fmt: skip
    return int(part)


def _nowhere(part: str, node: Any, text: str) -> ClusterError:
    known = ", ".join(node) if isinstance(node, dict) else "nothing below it"
    return ClusterError(f"setting {text!r}: there is no {part!r} here; known: {known}")
