"""Graphs as files of earlier schemas held them.

Schema 1: facts among the notes, axes as free text, no basis. Schema 2: no recorded work.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from paceline.graph.border import UNSCALED
from paceline.graph.columns import TABLES, Columns, Layout, to_graph
from paceline.graph.facts import Facts, Parameter
from paceline.graph.graph import Graph
from paceline.graph.kinds import NONE, Axis
from paceline.graph.work.columns import recorded_columns

ADDED = ("basis", "scale_ppb")
SECOND_TABLES: Mapping[str, Layout] = {
    **{name: layout for name, layout in TABLES.items() if name != "works"},
    "ops": {name: kind for name, kind in TABLES["ops"].items() if name != "work"},
}
FIRST_TABLES: Mapping[str, Layout] = {
    **SECOND_TABLES,
    "ops": {name: kind for name, kind in SECOND_TABLES["ops"].items() if name not in ADDED},
}
_FACTS = ("world_size", "parameters", "buckets", "plain_step_ns", "siblings")


def of_first_schema(tables: Mapping[str, Columns], meta: Mapping[str, Any]) -> Graph:
    """The graph of a folder that an earlier Paceline wrote."""
    ops, groups = tables["ops"], tables["groups"]
    count = len(ops["rank"])
    added = {"basis": np.zeros(count, np.uint8), "scale_ppb": np.full(count, UNSCALED, np.int64)}
    facts = {
        **tables,
        "ops": {**ops, **added, "work": np.full(count, NONE, np.int32)},
        "works": recorded_columns(()),
        "groups": {**groups, "axis": [known_axis(text).value for text in groups["axis"]]},
    }
    notes = {key: value for key, value in meta.items() if key not in _FACTS}
    return to_graph(facts, facts_of_notes(meta), notes)


def of_second_schema(tables: Mapping[str, Columns], facts: Facts, meta: Mapping[str, Any]) -> Graph:
    count = len(tables["ops"]["rank"])
    ops = {**tables["ops"], "work": np.full(count, NONE, np.int32)}
    return to_graph({**tables, "ops": ops, "works": recorded_columns(())}, facts, meta)


def facts_of_notes(meta: Mapping[str, Any]) -> Facts:
    """Facts that schema 1 kept among a graph's notes."""
    return Facts(
        world_size=int(meta.get("world_size", 0)),
        parameters=tuple(Parameter(str(n), int(b)) for n, b in meta.get("parameters", ())),
        buckets=tuple(tuple(map(str, bucket)) for bucket in meta.get("buckets", ())),
        plain_step_ns=int(meta.get("plain_step_ns", 0)),
        siblings={
            known_axis(axis): tuple(map(int, shifts))
            for axis, shifts in meta.get("siblings", {}).items()
        },
    )


def known_axis(text: str) -> Axis:
    """The axis of that name; NONE for other words."""
    return Axis(text) if text in {axis.value for axis in Axis} else Axis.NONE
