"""List the strategies: what each is, its effect, what excludes it, and whether it fits RUN.

paceline strategies runs/a           # which of them fit this job, and why the others do not
paceline strategies --markdown       # docs/strategies.md
"""

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from paceline.cli import Shown

if TYPE_CHECKING:
    from paceline.graph import Graph
    from paceline.report.text.strategies import StrategyRow


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", type=Path, help="a graph or run folder to fit them to")
    parser.add_argument("--markdown", action="store_true", help="as a page, with full texts")


def run(options: argparse.Namespace) -> Shown:
    from paceline.report.text.strategies import strategies_table
    from paceline.strategies import known
    from paceline.trace.runs import open_run

    graph = open_run(options.run) if options.run else None
    rows = [_row(name, graph) for name in known()]
    data = {"strategies": [asdict(row) for row in rows]}
    if options.markdown:
        page = markdown(rows)
        return Shown(data, lambda console: console.out(page, end=""))
    job = str(options.run or "")
    return Shown(data, lambda console: console.print(strategies_table(rows, job, families())))


def families() -> "dict[str, frozenset[str]]":
    """Strategies that are built on one class, by what they are called together."""
    from paceline.strategies import kind_of, known
    from paceline.strategies.coded import Coded
    from paceline.strategies.seldom import Seldom

    kinds = {"codecs": Coded, "rounds of weights": Seldom}
    return {
        name: frozenset(each for each in known() if issubclass(kind_of(each), base))
        for name, base in kinds.items()
    }


def markdown(rows: "list[StrategyRow]") -> str:
    """The page of all strategies, from their files' own words."""
    from inspect import getdoc
    from sys import modules

    from paceline.strategies import kind_of

    parts = [_HEAD]
    for row in rows:
        text = getdoc(modules[kind_of(row.name).__module__]) or ""
        beside = f" Not beside {', '.join(row.conflicts)}." if row.conflicts else ""
        done = "predicted and applied" if row.applies else "predicted only"
        measured = " ".join([_accuracy(row.name), *_learning(row.name)])
        said = f"{row.effect}, {done}.{beside}\n\n{text}\n\n{measured}"
        parts.append(f"## `{_signature(row.name)}`\n\n{said}\n")
    return "\n".join(parts)


def _accuracy(name: str) -> str:
    from paceline.strategies.accuracy import accuracy_of

    found = accuracy_of(name)
    if found is None:
        return "No figure of its predicted step is kept yet."
    if found.rows == 1:
        return f"Predicted against measured: off by {found.worst_error:.1%} in one setting."
    return (
        f"Predicted against measured: off by {found.mean_error:.1%} in the mean of {found.rows} "
        f"settings, {found.worst_error:.1%} at worst."
    )


def _learning(name: str) -> "Iterator[str]":
    """What it was measured to cost in accuracy; nothing of exact ones."""
    from paceline.strategies import Effect, kind_of, name_of
    from paceline.strategies.accuracy import learning_costs

    if kind_of(name).effect is Effect.EXACT:
        return
    if kind_of(name).resizes:
        yield "How it learns follows from the gradient noise scale (`paceline learn noise`)."
        return
    found = {c: cost for c, cost in learning_costs().items() if name_of(type(c)) == name}
    if not found:
        yield "What it costs in accuracy was not measured yet."
    for change, cost in found.items():
        yield (
            f"`{change}` learned to {cost.points:.2f} ± {2 * cost.error_points:.2f} points below "
            f"plain training ({cost.seeds} seeds)."
        )


def _row(name: str, graph: "Graph | None") -> "StrategyRow":
    from paceline.report.text.strategies import StrategyRow
    from paceline.strategies import in_a_sentence, kind_of

    kind = kind_of(name)
    return StrategyRow(
        name,
        in_a_sentence(kind),
        kind.effect.value,
        kind.applies,
        tuple(sorted(_beside(name))),
        None if graph is None else _refusal(name, graph),
    )


def _beside(name: str) -> "set[str]":
    """What cannot stand beside it in a plan."""
    from paceline.strategies import kind_of, known
    from paceline.strategies.strategy import exclude_each_other

    others = set(known()) - {name}
    return {each for each in others if exclude_each_other(kind_of(name), kind_of(each))}


def _refusal(name: str, graph: "Graph") -> str | None:
    """Of the first setting worth trying, else of the defaults; a strategy that needs to be told
    more says which."""
    from paceline.errors import PacelineError
    from paceline.strategies import kind_of, strategy

    try:
        chosen = next(iter(kind_of(name).choices(graph)), None) or strategy(name)
    except PacelineError as error:
        return str(error)
    return chosen.refusal(graph)


def _signature(name: str) -> str:
    from dataclasses import MISSING
    from typing import get_type_hints

    from paceline.strategies import kind_of
    from paceline.strategies.strategy import settings_of

    kind = kind_of(name)
    types = get_type_hints(kind)
    given = {f.name: f.default for f in settings_of(kind)}
    told = [
        f"{name}: {types[name].__name__}" + ("" if default is MISSING else f" = {default!r}")
        for name, default in given.items()
    ]
    return f"{name}({', '.join(told)})" if told else name


_HEAD = """# Strategies

Every strategy is one file of `src/paceline/strategies/`, and its text here is that file's. This
page is written by `paceline strategies --markdown`; a test holds it to the files. Exact strategies
train the same numbers, lossy ones lose precision of gradients or activations, relaxed ones change
the batch or when workers see each other's updates. To add one, see [how](how/add-a-strategy.md).
Errors are of whole steps in the lab, on links of 100 Mbit/s and 1 Gbit/s, of jobs that were
recorded without the strategy; see [accuracy](accuracy.md).
"""
