"""A graph's structure compiled for an engine, once per structure.

Graphs that differ in durations alone (`freeze()` of scaled ops, new prices) share one program.
"""

from typing import Any
from weakref import WeakKeyDictionary

from paceline.engine import replaying
from paceline.graph import Dependencies, Graph
from paceline.graph.cycles import structure
from paceline.graph.law import check_columns, cycle_error

_compiled: WeakKeyDictionary[Dependencies, dict[tuple[bool, int], tuple[tuple[Any, ...], Any]]] = (
    WeakKeyDictionary()
)


def program(graph: Graph, *, events: bool = False, core: Any = None) -> Any:
    """The `Program` of a graph, by `core` or else by the engine at hand, which must be one.

    `events` asks for one that the event engine can run even where a single pass would do.
    """
    core = core or replaying()
    assert core is not None, "callers choose the reference where there is no other engine"
    columns = (graph.ops.lane, graph.ops.instance, graph.lanes.discipline, graph.drains)
    programs = _compiled.setdefault(graph.deps, {})
    known = programs.get((events, id(core)))
    if known is not None and all(a is b for a, b in zip(known[0], columns)):
        return known[1]
    made = _compile(graph, events, core)
    programs[events, id(core)] = (columns, made)
    return made


def _compile(graph: Graph, events: bool, core: Any) -> Any:
    check_columns(graph)
    made = core.compile(*structure(graph), events)
    if len(made.cycle):
        raise cycle_error(graph, made.cycle.tolist())
    return made
