"""Predict the step time after a change, such as links twice as fast: --scale kind=transfer:0.5.

A selection is FIELD=VALUE terms joined by commas (kind, phase, rank, layer, name~REGEX, ...); the
factor multiplies the durations of the ops that it selects. Several changes apply in turn.
"""

import argparse
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from paceline.cli import Shown
from paceline.errors import GraphError

if TYPE_CHECKING:
    from paceline.graph import Graph
    from paceline.report import Summary


@dataclass(frozen=True)
class Change:
    """One `--scale`, and how many ops it touched."""

    selection: str
    factor: float
    ops: int


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("graph", metavar="GRAPH", help="graph or run folder, or Chakra traces")
    parser.add_argument(
        "--scale",
        action="append",
        default=[],
        metavar="SELECTION:FACTOR",
        help="multiply durations, as in 'kind=transfer:0.5'; may be repeated",
    )


def run(options: argparse.Namespace) -> Shown:
    from paceline.graph.formats import read_graph
    from paceline.replay import replay
    from paceline.report import summarise

    graph = read_graph(options.graph)
    changed, changes = scaled(graph, options.scale)
    before, after = (summarise(replay(each)) for each in (graph, changed))
    data = {
        "before_ns": before.step_ns,
        "after_ns": after.step_ns,
        "change": after.step_ns / before.step_ns - 1 if before.step_ns else 0.0,
        "changes": [asdict(change) for change in changes],
        "after": asdict(after),
    }
    return Shown(data, lambda console: _render(changes, before, after, console))


def scaled(graph: "Graph", texts: list[str]) -> tuple["Graph", list[Change]]:
    """The graph after every scaling in turn; one that selects nothing is an error."""
    from paceline.graph import Overlay, scaling

    edits = Overlay(graph)
    changes = []
    for text in texts:
        selection, factor = scaling(text)
        ops = edits.select(selection)
        if not len(ops):
            raise GraphError(
                f"--scale {text!r} selects none of the graph's {len(graph)} ops. "
                "`paceline show` lists kinds, layers and ops."
            )
        edits.scale(ops, factor)
        changes.append(Change(selection, factor, len(ops)))
    return edits.freeze(), changes


def _render(changes: list[Change], before: "Summary", after: "Summary", console: Any) -> None:
    from paceline.report.text import headline, prediction_table

    for change in changes:
        console.print(f"{change.selection or 'all'} x {change.factor:g}: {change.ops:,} ops")
    console.print(prediction_table(before, after))
    console.print()
    console.print(headline(after), markup=False)
