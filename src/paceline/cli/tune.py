"""Make a job faster and prove it: paceline tune -- torchrun --nproc-per-node 2 train.py

Records the job, searches for a plan, tries the best in the live job, in blocks that take turns with
plain ones, and keeps it (plan.json) only where it helps beyond noise and the loss stays where the
plan's effect says. The script needs no change; it is started up to four times, and each run is
ended when it has shown enough, so let it save nothing that you need. With --cluster everything
happens in a lab of that cluster. What it did is said in six lines.
"""

import argparse
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from paceline.cli import Shown
from paceline.cli._arguments import count
from paceline.cli.search import EFFECTS

if TYPE_CHECKING:
    from paceline.search import Goal
    from paceline.tune import Tuned, TuneRequest, Where


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", type=Path, default=Path("runs/tune"), metavar="FOLDER",
                        help="keeps recording, trials, outcome and plan (runs/tune)")  # fmt: skip
    parser.add_argument("--allow", choices=EFFECTS, default="exact",
                        help="what a plan may do to the numbers that are learnt")  # fmt: skip
    parser.add_argument("--budget", default="15min", metavar="TIME",
                        help="for the whole loop, as in 90s or 15min")  # fmt: skip
    parser.add_argument("--steps", type=count, default=0, metavar="N",
                        help="steps measured with the plan, and as many without (by default as "
                        "many as the job's noise asks for)")  # fmt: skip
    parser.add_argument("--memory-limit", metavar="SIZE", help="of a rank, such as 16GB")
    parser.add_argument("--only", action="append", default=[], metavar="STRATEGY",
                        help="search among these strategies; may be repeated")  # fmt: skip
    parser.add_argument("--apart", action="store_true",
                        help="also strategies that cannot take turns within a run (compiled, "
                        "loaders, other layers): a trial of them is eight short runs")  # fmt: skip
    parser.add_argument("--trials", type=count, default=3, metavar="N",
                        help="plans tried live, at most (3)")  # fmt: skip
    parser.add_argument("--hang", type=float, default=60.0, metavar="SECONDS",
                        help="without a step, after which a job is ended (60)")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="of the search, and of who runs when")
    parser.add_argument("--cluster", metavar="FILE", help="run in a lab of this cluster (YAML)")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE",
                        help="change the cluster, such as link.rate=100Mbps")  # fmt: skip
    parser.add_argument("--calibration", type=Path, metavar="FILE",
                        help="rest predictions on what `paceline measure` found")  # fmt: skip
    parser.add_argument("training", nargs=argparse.REMAINDER, metavar="-- COMMAND ...")


def run(options: argparse.Namespace) -> Shown:
    from paceline.launch import unwinding
    from paceline.report import working
    from paceline.tune import tune, tuned_data

    request = request_of(options)
    with unwinding(), working("tuning") as told:
        tuned = tune(request, os.environ, told)
    return Shown(tuned_data(tuned), lambda console: _render(tuned), 130 if tuned.stopped else 0)


def request_of(options: argparse.Namespace) -> "TuneRequest":
    from paceline.launch import LaunchError
    from paceline.trial import here, in_lab
    from paceline.tune import TuneRequest

    given = list(options.training)
    command = tuple(given[1:] if given[:1] == ["--"] else given)
    if not command:
        raise LaunchError(
            "nothing to tune: give the training command after --, as in "
            "`paceline tune -- torchrun --nproc-per-node 2 train.py`"
        )
    where = _where(options)
    return TuneRequest(
        command=command,
        folder=options.output,
        goal=_goal(options),
        where=where,
        place=in_lab(where.cluster) if where is not None and where.cluster is not None else here,
        budget_s=seconds(options.budget),
        steps=options.steps,
        hang_s=options.hang,
        trials=options.trials,
        apart=options.apart,
        seed=options.seed,
    )


def seconds(text: str) -> float:
    """Seconds from `90s`, `15min` or `2h`."""
    from paceline.cluster.quantities import duration

    for unit, factor in (("min", 60.0), ("h", 3600.0)):
        if text.endswith(unit):
            with suppress(ValueError):
                return float(text.removesuffix(unit)) * factor
    return duration(text, "--budget") / 1e9


def _goal(options: argparse.Namespace) -> "Goal":
    from paceline.cluster.quantities import size
    from paceline.search import Goal
    from paceline.strategies import Effect
    from paceline.tune.request import SEARCH_S

    limit = size(options.memory_limit, "--memory-limit") if options.memory_limit else None
    return Goal(
        allow=Effect(options.allow),
        memory_limit_bytes=limit,
        budget_s=SEARCH_S,
        seed=options.seed,
        strategies=tuple(options.only) or None,
    )


def _where(options: argparse.Namespace) -> "Where | None":
    """The cluster that was described, its workers on this machine's cores; None: as recorded."""
    from paceline.cli._question import OptionError
    from paceline.cluster import load, with_settings
    from paceline.cluster.machine import Machine
    from paceline.cluster.tcp import over_tcp
    from paceline.measure import load as load_calibration
    from paceline.predict import Question
    from paceline.tune import Where

    if not options.cluster:
        if options.set or options.calibration:
            raise OptionError("--set and --calibration need --cluster FILE")
        return None
    made = load_calibration(options.calibration) if options.calibration else None
    cluster = over_tcp(with_settings(load(options.cluster), options.set))
    cores = float(len(os.sched_getaffinity(0)))
    machine = made.shared.machine(cores) if made is not None and made.shared else Machine(cores)
    placed = made.applied(cluster) if made is not None else cluster
    return Where(placed, Question(machine, made))


def _render(tuned: "Tuned") -> None:
    from paceline.report.text import tuned_lines

    for line in tuned_lines(tuned):
        print(line)
    sys.stdout.flush()
