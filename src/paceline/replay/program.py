"""A graph's structure compiled for the native engine, once per structure.

Graphs that differ in durations alone (`freeze()` of scaled ops, new prices) share one program.
"""

from typing import Any
from weakref import WeakKeyDictionary

from paceline.engine import native
from paceline.graph import Dependencies, Graph
from paceline.graph.cycles import structure
from paceline.graph.law import check_columns, cycle_error

_compiled: WeakKeyDictionary[Dependencies, dict[bool, tuple[tuple[Any, ...], Any]]] = (
    WeakKeyDictionary()
)


def program(graph: Graph, *, events: bool = False) -> Any:
    """The native `Program` of a graph; needs the native core.

    `events` asks for one that the event engine can run even where a single pass would do.
    """
    columns = (graph.ops.lane, graph.ops.instance, graph.lanes.discipline, graph.drains)
    programs = _compiled.setdefault(graph.deps, {})
    known = programs.get(events)
    if known is not None and all(a is b for a, b in zip(known[0], columns)):
        return known[1]
    made = _compile(graph, events)
    programs[events] = (columns, made)
    return made


def _compile(graph: Graph, events: bool) -> Any:
    core = native()
    assert core is not None, "callers choose the reference where the native core is absent"
    check_columns(graph)
    made = core.compile(*structure(graph), events)
    if len(made.cycle):
        raise cycle_error(graph, made.cycle.tolist())
    return made
