"""Predict the step time after a change, such as links twice as fast: --scale kind=transfer:0.5.

paceline predict runs/a --with 'buckets(size_bytes=4194304)'
paceline predict runs/a --cluster cluster.yaml --workers 64 --set link.rate=100Gbps

With --cluster the job is carried over to it. Without one, communication takes the time that it was
recorded with. A selection of --scale is FIELD=VALUE terms joined by commas (kind, phase, rank,
layer, name~REGEX, ...); its factor multiplies the durations of the ops that it selects.
"""

import argparse
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli import Shown
from paceline.cli._arguments import add_graph, count
from paceline.cli._question import (
    OptionError,
    PredictionRequest,
    add_correction,
    add_question,
    asked,
    differs,
    predicted,
    prediction_data,
)

if TYPE_CHECKING:
    from paceline.graph import Graph
    from paceline.predict import Fit, Prediction
    from paceline.report import Draws


def configure(parser: argparse.ArgumentParser) -> None:
    add_graph(parser)
    add_question(parser)
    add_correction(parser)
    parser.add_argument("--draws", type=count, default=0, metavar="N",
                        help="also N steps drawn from recorded durations")  # fmt: skip
    parser.add_argument("--seed", type=int, metavar="N", help="of the draws (default 0)")
    parser.add_argument("--memory-limit", metavar="SIZE",
                        help="also say whether a rank's peak stays within it, such as "
                        "16GB")  # fmt: skip
    parser.add_argument("--save-plan", type=Path, metavar="FILE",
                        help="keep the changes as a plan for `paceline apply`")  # fmt: skip


def run(options: argparse.Namespace) -> Shown:
    from paceline.history import Subject, keep, prediction_entry
    from paceline.report import working
    from paceline.trace.runs import open_run

    with working(f"predicting {options.graph}"):
        graph, wanted = open_run(Path(options.graph)), _drawn_too(options)
        different = differs(options, graph, wanted)
        plain = Subject(graph, Path(options.graph), (), wanted.cluster, wanted.question)
        subject = replace(plain, changes=wanted.changes)
        before = None if wanted.cluster else predicted(plain, options)
        after = predicted(subject, options)
    keep(prediction_entry(subject, after))
    fit = _fit(after, options.memory_limit)
    if options.save_plan:
        _save_plan(options, graph, wanted, (before, after))
    data = {**prediction_data(after), **_compared(before, after)}
    data["changes"] = [str(change) for change in wanted.changes]
    data["plan_made_for_another"] = list(different)
    data["draws"] = _draws(before, after)
    data["fit"] = {**asdict(fit), "fits": fit.fits} if fit else None
    return Shown(data, lambda console: _render((before, after), fit, different, console))


def _drawn_too(options: argparse.Namespace) -> PredictionRequest:
    """What is asked, with the draws."""
    if options.seed is not None and not options.draws:
        raise OptionError("--seed is of the draws: give --draws N too")
    wanted = asked(options, options.graph)
    question = replace(wanted.question, draws=options.draws, seed=options.seed or 0)
    return replace(wanted, question=question)


def _fit(found: "Prediction", limit: str | None) -> "Fit | None":
    from paceline.cluster.quantities import size
    from paceline.predict import PredictError

    if limit is None:
        return None
    if found.memory is None:
        raise PredictError(
            "the graph does not tell what a rank holds, so it is not known whether it fits; "
            "record the job anew with `paceline record`"
        )
    return found.memory.fit(size(limit, "--memory-limit"))


def _save_plan(
    options: argparse.Namespace,
    graph: "Graph",
    wanted: PredictionRequest,
    found: "tuple[Prediction | None, Prediction]",
) -> None:
    """With its price here; a plan that was given, and nothing beside it, keeps its reasons."""
    from paceline.strategies import Plan, Predicted, load_plan, made_for, save_plan
    from paceline.strategies.sends import sends_of

    before, after = found
    given = load_plan(options.plan) if options.plan else None
    told = Predicted(
        after.step_ns,
        after.low_ns,
        after.high_ns,
        after.batch_ns,
        before.batch_ns if before else None,
        after.memory.peak_bytes if after.memory else None,
    )
    reasons = given.reasons if given and given.strategies == wanted.changes else ()
    plan = Plan(
        wanted.changes,
        made_for(graph, wanted.changes, wanted.cluster),
        sends_of(after.timeline.graph),
        told,
        reasons,
    )
    save_plan(plan, options.save_plan)


def _compared(before: "Prediction | None", after: "Prediction") -> dict[str, Any]:
    if before is None:
        return {}
    change = after.batch_ns / before.batch_ns - 1 if before.step_ns else 0.0
    return {"before_ns": before.step_ns, "after_ns": after.step_ns, "change": change}


def _draws(before: "Prediction | None", after: "Prediction") -> dict[str, Any] | None:
    if after.drawn is None:
        return None
    found = {"after": asdict(_drawn(after))}
    return {"before": asdict(_drawn(before)), **found} if before else found


def _drawn(found: "Prediction") -> "Draws":
    from paceline.report import summarise_draws

    assert found.drawn is not None
    return summarise_draws(found.timeline.graph, found.drawn)


_WORDS = {"batch_bytes": "batch", "cluster": "cluster"}


def _render(
    found: "tuple[Prediction | None, Prediction]",
    fit: "Fit | None",
    different: tuple[str, ...],
    console: Any,
) -> None:
    from paceline.report.text.draws import draws_table
    from paceline.report.text.prediction import (
        carried_lines,
        prediction_lines,
        prediction_table,
    )

    before, after = found
    if different:
        what = " and another ".join(_WORDS[name] for name in different)
        console.print(f"the plan was made for another {what}: it is priced anew\n", markup=False)
    if before is not None:
        console.print(prediction_table(before, after))
    else:
        console.print("\n".join(prediction_lines(after)), markup=False, soft_wrap=True)
    if after.drawn is not None:
        console.print()
        console.print(draws_table(_drawn(before) if before else None, _drawn(after)))
    _render_memory(before, after, fit, console)
    if before is not None:
        console.print()
        told = [*carried_lines(after), *(f"rests on {reason}" for reason in after.rests_on)]
        console.print("\n".join(told), markup=False, soft_wrap=True)


def _render_memory(
    before: "Prediction | None", after: "Prediction", fit: "Fit | None", console: Any
) -> None:
    from paceline.report.text.memory import fit_line, peak_line, ranks_table

    if after.memory is not None:
        console.print()
        console.print(ranks_table(after.memory, before.memory if before else None))
        console.print(peak_line(after.memory), markup=False, soft_wrap=True)
    if fit is not None:
        console.print(fit_line(fit), markup=False, soft_wrap=True)
