"""Predict the step time after a change, such as links twice as fast: --scale kind=transfer:0.5.

With --cluster the job is carried over to it: --workers 64 --set link.rate=100Gbps --device h200.

A selection is FIELD=VALUE terms joined by commas (kind, phase, rank, layer, name~REGEX, ...); the
factor multiplies the durations of the ops that it selects. Several changes apply in turn.
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from paceline.cli import Shown
from paceline.cli._arguments import add_graph, count
from paceline.cli._retarget import (
    add_target,
    asked,
    predicted,
    prediction_data,
    prediction_lines,
    read_recording,
    wanted,
)
from paceline.errors import GraphError

if TYPE_CHECKING:
    from paceline.graph import Graph
    from paceline.report import Draws, Summary


@dataclass(frozen=True)
class Change:
    """One `--scale`, and how many ops it touched."""

    selection: str
    factor: float
    ops: int


def configure(parser: argparse.ArgumentParser) -> None:
    add_graph(parser)
    parser.add_argument(
        "--scale",
        action="append",
        default=[],
        metavar="SELECTION:FACTOR",
        help="multiply durations, as in 'kind=transfer:0.5'; may be repeated",
    )
    parser.add_argument(
        "--draws", type=count, metavar="N", help="also N draws from recorded durations"
    )
    parser.add_argument(
        "--one-step",
        action="store_true",
        help="of a recording of several steps, only the one of median length",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the draws (default 0)")
    add_target(parser)


def run(options: argparse.Namespace) -> Shown:
    from paceline.replay import one_step, replay
    from paceline.report import summarise, working

    if asked(options):
        return _elsewhere(options)
    with working(f"replaying {options.graph}"):
        graph = read_recording(options.graph)
        graph = one_step(graph) if options.one_step else graph
        changed, changes = scaled(graph, options.scale)
        before, after = (summarise(replay(each)) for each in (graph, changed))
    draws = drawn((graph, changed), options) if options.draws else None
    data = {
        "before_ns": before.step_ns,
        "after_ns": after.step_ns,
        "change": after.step_ns / before.step_ns - 1 if before.step_ns else 0.0,
        "changes": [asdict(change) for change in changes],
        "after": asdict(after),
        "draws": draws and dict(zip(("before", "after"), map(asdict, draws))),
    }
    return Shown(data, lambda console: _render(changes, (before, after), draws, console))


def _elsewhere(options: argparse.Namespace) -> Shown:
    """The recording on another cluster; `--scale` applies to it first."""
    graph, _ = scaled(read_recording(options.graph), options.scale)
    found = predicted(wanted(options, graph))
    lines = prediction_lines(found)
    return Shown(
        prediction_data(found), lambda console: console.print("\n".join(lines), markup=False)
    )


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


def drawn(graphs: "Sequence[Graph]", options: argparse.Namespace) -> "list[Draws]":
    """How the step time of each graph varies with its recorded durations."""
    from paceline.replay import replay_many
    from paceline.report import summarise_draws, working

    with working(f"{options.draws:,} draws"):
        return [
            summarise_draws(graph, replay_many(graph, options.draws, options.seed))
            for graph in graphs
        ]


def _render(
    changes: list[Change],
    summaries: "tuple[Summary, Summary]",
    draws: "list[Draws] | None",
    console: Any,
) -> None:
    from paceline.report.text import draws_table, headline, prediction_table

    for change in changes:
        console.print(f"{change.selection or 'all'} x {change.factor:g}: {change.ops:,} ops")
    console.print(prediction_table(*summaries))
    if draws:
        console.print()
        console.print(draws_table(*draws))
    console.print()
    console.print(headline(summaries[1]), markup=False, soft_wrap=True)
