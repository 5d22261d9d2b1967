"""Devices, links and whole hosts by name, with the datasheet each figure comes from, in YAML."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from paceline.cluster.quantities import ClusterError


def preset(kind: str, name: str) -> dict[str, Any]:
    """The fields of one preset; `kind` is devices, systems, networks or fabrics."""
    known = table(kind)
    if name not in known:
        raise ClusterError(f"no {kind[:-1]} is called {name!r}; known: {', '.join(known)}")
    return dict(known[name])


def table(kind: str) -> Mapping[str, Mapping[str, Any]]:
    """All presets of one kind by name."""
    found: Mapping[str, Mapping[str, Any]] = (
        _load(kind) if kind in ("devices", "systems") else _load("links")[kind]
    )
    return found


@cache
def _load(stem: str) -> Any:
    return yaml.safe_load(files(__package__).joinpath(f"{stem}.yaml").read_text())
