"""Search the plan that makes a recorded job fastest: paceline search RUN -o plan.json

paceline search runs/a --cluster cluster.yaml --allow lossy --budget 30s -o plan.json
paceline search runs/a --cluster cluster.yaml --memory-limit 16GB --on dask://10.0.0.1:8786
paceline search runs/a --goal time-to-accuracy --target 0.85 --curve short.csv --allow relaxed

Only what `paceline apply` can switch on is in a plan, unless --predicted-too. By default plans are
exact: the same numbers are learnt. Ctrl-C ends a search, and keeps what was found so far.
"""

import argparse
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli import Shown
from paceline.cli._accuracy import ACCURACY, add_accuracy, learning_of
from paceline.cli._arguments import add_graph
from paceline.cli._question import OptionError, add_question, asked

if TYPE_CHECKING:
    from paceline.search import Candidate, Found, Goal

EFFECTS = ("exact", "lossy", "relaxed")
AIMS = ("time", "memory", "bytes", ACCURACY)


def configure(parser: argparse.ArgumentParser) -> None:
    add_graph(parser, "run")
    add_question(parser)
    goal = parser.add_argument_group("goal")
    goal.add_argument("--allow", choices=EFFECTS, default="exact",
                      help="the least exact effect that a plan may have (exact)")  # fmt: skip
    goal.add_argument("--least", "--goal", choices=AIMS, default="time",
                      help="what is to be least (time for a recorded batch)")  # fmt: skip
    goal.add_argument("--memory-limit", metavar="SIZE", help="of every rank's peak, such as 16GB")
    goal.add_argument("--only", action="append", metavar="NAME",
                      help="a strategy to choose from; may be repeated (all)")  # fmt: skip
    goal.add_argument("--without", action="append", default=[], metavar="NAME",
                      help="a strategy to leave out; may be repeated")  # fmt: skip
    goal.add_argument("--predicted-too", action="store_true",
                      help="also strategies that cannot be switched on in a live job")  # fmt: skip
    add_accuracy(parser)
    how = parser.add_argument_group("how")
    how.add_argument("--searcher", default="guided", metavar="NAME",
                     help="guided (default), evolutionary, optuna or exhaustive")  # fmt: skip
    how.add_argument("--budget", default="30s", metavar="TIME", help="such as 90s or 5min (30s)")
    how.add_argument("--seed", type=int, default=0, help="of the search (default 0)")
    how.add_argument("--on", default="", metavar="WORKERS",
                     help="processes[:N], dask://[HOST:PORT] or ray://[HOST:PORT]")  # fmt: skip
    how.add_argument("--tried", type=Path, metavar="FILE",
                     help="keep what was tried, and go on from what it holds")  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, metavar="FILE",
                        help="write the best plan, for `paceline apply`")  # fmt: skip


def run(options: argparse.Namespace) -> Shown:
    from paceline.report import working
    from paceline.search import SearchPlace, planned, search
    from paceline.strategies import save_plan
    from paceline.trace.runs import open_run

    wanted = asked(options, options.run)
    if wanted.changes:
        raise OptionError(
            f"{wanted.changes[0]} was given, and a search finds the changes itself; name what to "
            "choose from with --only, or predict it with `paceline predict`"
        )
    with working(f"searching {options.run}"):
        graph, question = open_run(Path(options.run)), wanted.question
        goal = _goal(options, graph.world_size)
        found = search(
            graph, wanted.cluster, question, goal, options.searcher,
            not options.predicted_too, SearchPlace(options.on, options.tried),
        )  # fmt: skip
    if options.output:
        save_plan(planned(found, graph, wanted.cluster, question), options.output)
    data = found_data(found)
    return Shown(data, lambda console: _render(found, options.output, console))


def found_data(found: "Found") -> dict[str, Any]:
    """What was found as plain data."""
    return {
        "best": _candidate(found.best),
        "unchanged": _candidate(found.unchanged),
        "sharded": _candidate(found.sharded) if found.sharded else None,
        "pareto": [_candidate(each) for each in found.pareto],
        "tried": found.tried,
        "seconds": found.seconds,
        "ended": found.ended.value,
        "refused": [{"strategy": str(each), "reason": why} for each, why in found.refused],
    }


def _candidate(each: "Candidate") -> dict[str, Any]:
    plain = {"plan": [str(part) for part in each.plan], "effect": each.effect.value}
    return {**asdict(replace(each, plan=())), **plain}


def _goal(options: argparse.Namespace, workers: int) -> "Goal":
    from paceline.cluster.quantities import duration, size
    from paceline.search import Aim, Goal
    from paceline.strategies import Effect

    limit = options.memory_limit
    return Goal(
        allow=Effect(options.allow),
        memory_limit_bytes=None if limit is None else size(limit, "--memory-limit"),
        budget_s=duration(options.budget, "--budget") / 1e9,
        seed=options.seed,
        strategies=options.only,
        aim=Aim(options.least),
        without=tuple(options.without),
        learning=learning_of(options, options.least, workers),
    )


def _render(found: "Found", output: Path | None, console: Any) -> None:
    from paceline.report.text.found import found_lines, pareto_table

    console.print("\n".join(found_lines(found)), markup=False, soft_wrap=True)
    if len(found.pareto) > 1:
        console.print()
        console.print(pareto_table(found))
    if output is not None:
        console.print(f"\nwritten to {output}: paceline apply {output} -- COMMAND", markup=False)
