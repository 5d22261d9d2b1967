"""Make a job faster and prove it: paceline tune -- torchrun --nproc-per-node 2 train.py

Records the job, searches for a plan, tries the best in the live job, in blocks that take turns with
plain ones, and keeps it (plan.json) only where it helps beyond noise and the loss stays where the
plan's effect says. The script needs no change; it is started up to four times, and each run is
ended when it has shown enough, so let it save nothing that you need. With --cluster everything
happens in a lab of that cluster. On several hosts (torchrun --nnodes, srun) start the same command
on each; they need no shared folder, and one of them says the verdict. What it did is said in six
lines.
"""

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from paceline.cli import Shown
from paceline.cli._accuracy import ACCURACY, add_accuracy, learning_of
from paceline.cli._arguments import calibration_of, count
from paceline.cli.search import EFFECTS

if TYPE_CHECKING:
    from paceline.search import Goal
    from paceline.tune import Tuned, TuneRequest, Where
    from paceline.tune.hosts import Meeting


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", type=Path, default=Path("runs/tune"), metavar="FOLDER",
                        help="keeps recording, trials, outcome and plan (runs/tune)")  # fmt: skip
    parser.add_argument("--allow", choices=EFFECTS, default="exact",
                        help="what a plan may do to the numbers that are learnt")  # fmt: skip
    parser.add_argument("--goal", choices=("time", ACCURACY), default="time",
                        help="what is to be least: time for a recorded batch (time)")  # fmt: skip
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
    parser.add_argument("--meet", metavar="HOST:PORT",
                        help="where hosts meet (next to the job's rendezvous)")  # fmt: skip
    parser.add_argument("--wait", type=float, default=120.0, metavar="SECONDS",
                        help="for the other hosts to come (120)")  # fmt: skip
    add_accuracy(parser)
    parser.add_argument("training", nargs=argparse.REMAINDER, metavar="-- COMMAND ...")


def run(options: argparse.Namespace) -> Shown:
    from paceline.history import keep, opened, tuned_entries
    from paceline.launch import unwinding
    from paceline.report import working
    from paceline.tune import tuned_data

    request, meeting = request_of(options), _meeting(options)
    with unwinding(), working("tuning") as told:
        if meeting is not None and not meeting.leads:
            return _followed(request, meeting, told)
        tuned = _tuned(request, meeting, told)
    if opened() is not None:
        keep(*tuned_entries(tuned))
    return Shown(tuned_data(tuned), lambda console: _render(tuned), 130 if tuned.stopped else 0)


def _meeting(options: argparse.Namespace) -> "Meeting | None":
    """None on one host; a lab is one."""
    from paceline.tune.hosts import meeting_of

    found = None if options.cluster else meeting_of(command_of(options), os.environ)
    if found is None:
        return None
    found = found.at(options.meet) if options.meet else found
    return replace(found, wait_s=options.wait)


def _tuned(
    request: "TuneRequest", meeting: "Meeting | None", told: Callable[[str], None]
) -> "Tuned":
    from paceline.tune import tune
    from paceline.tune.hosts import gathered

    if meeting is None:
        return tune(request, os.environ, told)
    with gathered(meeting, request.command, told) as hosts:
        place = hosts.place(request.place, request.folder)
        tuned = tune(replace(request, place=place), os.environ, told)
        hosts.tell(tuned.decision.value, tuned.kept)
    return tuned


def _followed(request: "TuneRequest", meeting: "Meeting", told: Callable[[str], None]) -> Shown:
    from paceline.tune.hosts import follow

    told(f"following the host at {meeting.address}")
    done = follow(meeting, request.command, request.folder, os.environ, request.place)
    data = {"followed": meeting.address, "decision": done.decision,
            "plan": str(done.plan) if done.plan else None}  # fmt: skip
    kept = f"; the plan is in {done.plan}" if done.plan else ""
    line = f"the host at {meeting.address} says the verdict: {done.decision}{kept}"
    return Shown(data, lambda console: print(line))


def request_of(options: argparse.Namespace) -> "TuneRequest":
    from paceline.cluster.quantities import duration
    from paceline.trial import here, in_lab
    from paceline.tune import TuneRequest

    where = _where(options)
    return TuneRequest(
        command=command_of(options),
        folder=options.output,
        goal=_goal(options),
        where=where,
        place=in_lab(where.cluster) if where is not None and where.cluster is not None else here,
        budget_s=duration(options.budget, "--budget") / 1e9,
        steps=options.steps,
        hang_s=options.hang,
        trials=options.trials,
        apart=options.apart,
        seed=options.seed,
    )


def command_of(options: argparse.Namespace) -> tuple[str, ...]:
    from paceline.launch import LaunchError

    given = list(options.training)
    command = tuple(given[1:] if given[:1] == ["--"] else given)
    if not command:
        raise LaunchError(
            "nothing to tune: give the training command after --, as in "
            "`paceline tune -- torchrun --nproc-per-node 2 train.py`"
        )
    return command


def _goal(options: argparse.Namespace) -> "Goal":
    from paceline.cluster.quantities import size
    from paceline.search import Aim, Goal
    from paceline.strategies import Effect
    from paceline.tune.request import SEARCH_S

    limit = size(options.memory_limit, "--memory-limit") if options.memory_limit else None
    return Goal(
        allow=Effect(options.allow),
        memory_limit_bytes=limit,
        budget_s=SEARCH_S,
        seed=options.seed,
        strategies=tuple(options.only) or None,
        aim=Aim(options.goal),
        learning=learning_of(options, options.goal, None),
    )


def _where(options: argparse.Namespace) -> "Where | None":
    """The cluster that was described, its workers on this machine's cores; None: as recorded."""
    from paceline.cli._question import OptionError
    from paceline.cluster import load, with_settings
    from paceline.cluster.machine import Machine
    from paceline.cluster.tcp import over_tcp
    from paceline.machine import this_machine
    from paceline.predict import Question
    from paceline.tune import Where

    if not options.cluster:
        if options.set or options.calibration:
            raise OptionError("--set and --calibration need --cluster FILE")
        return None
    made = calibration_of(options, this_machine())
    cluster = over_tcp(with_settings(load(options.cluster), options.set))
    cores = float(len(os.sched_getaffinity(0)))
    machine = made.shared.machine(cores) if made is not None and made.shared else Machine(cores)
    placed = made.applied(cluster) if made is not None else cluster
    return Where(placed, Question(machine, made, here=this_machine()))


def _render(tuned: "Tuned") -> None:
    from paceline.report.text.tuned import tuned_lines

    for line in tuned_lines(tuned):
        print(line)
    sys.stdout.flush()
