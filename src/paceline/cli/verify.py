"""Check a prediction: run the recorded job in the lab on another cluster, and compare.

paceline verify runs/a --cluster cluster.yaml --set link.rate=200Mbps --workers 4
paceline verify runs/a --cluster cluster.yaml --plan plan.json

The job is the recording's own command, or --job; strategies are switched on in it. All workers
share this machine's cores, and the prediction knows it. Where the machine was faster or slower than
when the job was recorded, as its pulse tells, that is said apart from the error of the prediction.
See `paceline lab` for what the lab needs.
"""

import argparse
import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli import Shown
from paceline.cli._arguments import count, positive
from paceline.cli._question import (
    OptionError,
    add_correction,
    add_question,
    asked,
    differs,
    ms,
    predicted,
    prediction_data,
)

if TYPE_CHECKING:
    from paceline.strategies import Plan, Strategy
    from paceline.verify import Verdict


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("graph", metavar="RUN", help="folder of a recording")
    add_question(parser)
    add_correction(parser)
    parser.add_argument("--steps", type=count, default=10, help="steps to record in the lab (10)")
    parser.add_argument("--timeout", type=positive, default=300.0, help="seconds the job may take")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the lab's recording")
    parser.add_argument("--job", type=shlex.split, default=[], metavar="COMMAND",
                        help="run this in place of the recording's own command")  # fmt: skip


def run(options: argparse.Namespace) -> Shown:
    from paceline.history import Subject, keep, verdict_entry
    from paceline.machine import usable_cores
    from paceline.predict import predict
    from paceline.trace.runs import open_run
    from paceline.verify import Proof, Verdict, prove, recorded_command

    _require_provable(options)
    options.cores = options.cores or float(usable_cores())
    wanted = asked(options, options.graph)
    assert wanted.cluster is not None, "_require_provable asks for one"
    plan = None if options.job else plan_of(wanted.changes)
    command = tuple(options.job) or recorded_command(Path(options.graph))
    graph = open_run(Path(options.graph))
    differs(options, graph, wanted)  # an error where the plan is another job's
    subject = Subject(graph, Path(options.graph), wanted.changes, wanted.cluster, wanted.question)
    guess = predicted(subject, options)
    if guess.timeline.graph.facts.period > 1:
        raise OptionError(
            "verify compares single steps, and under this plan the job repeats itself every "
            f"{guess.timeline.graph.facts.period} steps; predict it, and time whole periods of a "
            "job under `paceline apply`"
        )
    cluster = wanted.cluster
    if cluster.workers != guess.workers:
        cluster = cluster.with_workers(guess.workers)
    proof = Proof(command, cluster, options.steps, options.timeout, plan=plan)
    measured = prove(proof, os.environ, options.keep)
    again = None
    if guess.pulse is not None and measured.pulse is not None:
        there = replace(wanted.question, pulse=measured.pulse, correction=guess.correction)
        again = predict(graph, wanted.changes, wanted.cluster, there)
    verdict = Verdict(guess, measured, again)
    keep(verdict_entry(subject, verdict))
    return Shown(verdict_data(verdict), lambda console: _render(verdict, console))


def verdict_data(verdict: "Verdict") -> dict[str, Any]:
    measured = verdict.measured
    return {
        "error": verdict.error,
        "error_at_pulse": verdict.error_at_pulse,
        "pulse_moved": asdict(moved) if (moved := verdict.pulse_moved) else None,
        "within_interval": verdict.within,
        "predicted": prediction_data(verdict.predicted),
        "measured": {
            "step_ns": measured.step_ns,
            "p10_ns": measured.low_ns,
            "p90_ns": measured.high_ns,
            "steps": len(measured.steps_ns),
            "by_class_ns": dict(measured.by_class),
        },
        "differences": [
            {
                "class": d.name,
                "predicted_ns": d.predicted_ns,
                "measured_ns": d.measured_ns,
                "error_ns": d.error_ns,
            }
            for d in verdict.differences
        ],
    }


def _require_provable(options: argparse.Namespace) -> None:
    """What the lab cannot change by itself must be in the command that it runs."""
    if not options.cluster:
        raise OptionError(
            "verify needs --cluster FILE: the cluster to stand up in the lab and run the job on"
        )
    if options.device or options.exchange != "all-reduce":
        raise OptionError(
            "the lab runs the job on this machine's cores with its own way to share gradients; "
            "--device and --exchange can be predicted (paceline predict), not verified"
        )


def plan_of(changes: "Sequence[Strategy]") -> "Plan | None":
    """What is switched on in the job itself; the lab gives it the workers."""
    from paceline.strategies import Plan, name_of

    inside = tuple(change for change in changes if name_of(type(change)) != "workers")
    for change in inside:
        if not change.applies:
            raise OptionError(
                f"{change} is not switched on in a running job. {change.how}\n"
                "To verify it, change the script and give its command, as in "
                "--batch 2 --job 'torchrun train.py --batch 64'".strip()
            )
    return Plan(inside) if inside else None


def _render(verdict: "Verdict", console: Any) -> None:
    from rich.table import Table

    guess, measured = verdict.predicted, verdict.measured
    table = Table("", "predicted", "measured", "difference", box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    table.add_row("step", ms(guess.step_ns), ms(measured.step_ns), f"{verdict.error:+.1%}")
    table.add_row(
        "typical error / p10 to p90",
        f"{ms(guess.low_ns)} to {ms(guess.high_ns)}",
        f"{ms(measured.low_ns)} to {ms(measured.high_ns)}",
        "inside" if verdict.within else "outside",
    )
    for one in verdict.differences:
        table.add_row(
            one.name,
            ms(one.predicted_ns),
            ms(one.measured_ns),
            f"{one.error_ns / measured.step_ns:+.1%} of the step",
        )
    console.print(table)
    if (moved := verdict.pulse_moved) and verdict.at_pulse is not None:
        console.print(
            f"Since the recording the machine moved: {moved}. At that pulse the prediction is "
            f"{ms(verdict.at_pulse.step_ns)} ({verdict.error_at_pulse:+.1%})."
        )
    worst = verdict.differences[0].name if verdict.differences else "nothing"
    console.print(f"The largest difference is in {worst}.")
