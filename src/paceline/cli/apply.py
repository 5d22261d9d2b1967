"""Run a training under a plan: paceline apply plan.json -- torchrun --nproc-per-node 2 train.py

The script needs no change; its output and exit code pass through. With -o it is recorded too. A
plan is written by `paceline predict RUN --with STRATEGY --save-plan FILE`, and refused for another
model, number of workers or version unless forced. Shown is what each rank sent for its gradients,
beside what was predicted.
"""

import argparse
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from paceline.cli import Shown

if TYPE_CHECKING:
    from paceline.strategies import Plan
    from paceline.strategies.applying import Applied


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", type=Path, help="a plan's JSON file")
    _add_options(parser)
    parser.add_argument("training", nargs=argparse.REMAINDER, metavar="-- COMMAND ...")


def run(options: argparse.Namespace) -> Shown:
    from paceline.strategies import load_plan
    from paceline.strategies.applying import run_applied

    command = _command(options)
    plan = load_plan(options.plan)
    done = run_applied(plan, command, os.environ, options.output, forced=options.force)
    sys.stdout.flush()
    data = {
        "strategies": [str(change) for change in plan.strategies],
        "exit_code": done.exit_code,
        "ranks": [asdict(rank) for rank in done.ranks],
        "predicted": asdict(plan.sends) if plan.sends else None,
        "folder": str(done.recording.folder) if done.recording else None,
    }
    return Shown(data, lambda console: _render(done, plan), done.exit_code)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", type=Path, help="also record, to this folder")
    parser.add_argument("--force", action="store_true", help="whatever job it was made for")


def _command(options: argparse.Namespace) -> tuple[str, ...]:
    """The training command. Options between the plan and the dashes are still ours: argparse hands
    all that follows the plan over as one."""
    given = list(options.training)
    if "--" not in given:
        return tuple(given)
    border = given.index("--")
    late = argparse.ArgumentParser(prog="paceline apply")
    _add_options(late)
    late.add_argument("--json", action="store_true")
    vars(options).update({k: v for k, v in vars(late.parse_args(given[:border])).items() if v})
    return tuple(given[border + 1 :])


def _render(done: "Applied", plan: "Plan") -> None:
    """To stderr: stdout belongs to the job."""
    from paceline.report.text.sent import sent_lines

    for line in sent_lines(done.ranks, plan.sends):
        print(f"paceline: {line}", file=sys.stderr)
