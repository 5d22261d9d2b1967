"""A cluster on this machine: namespaces, shaped links, and workers launched in them.

paceline lab up cluster.yaml --name office
paceline lab run --name office -- torchrun train.py
paceline lab down --name office            # or --all: every lab, and nothing else

`lab run --cluster cluster.yaml -- ...` builds a lab for the length of one command.
`lab incast` and `lab wire` time the transport beside TCP over the identical queues: several senders
to one receiver without loss, and under loss with each part of the transport switched off in turn.
"""

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from paceline.cli import Shown, _lab_wire
from paceline.cli._arguments import positive
from paceline.cluster import Cluster, load, with_settings
from paceline.lab import Finished, Lab, LabError, standing, tear_down

DEFAULT_NAME = "lab"


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    up = actions.add_parser("up", help="build a lab from a cluster file")
    up.add_argument("cluster", help="cluster file (YAML)")
    up.set_defaults(action=_up)
    run = actions.add_parser("run", help="run a command on every worker of a lab")
    run.add_argument("--cluster", help="build a lab from this file for this one command")
    run.add_argument("--timeout", type=positive, default=600.0, help="seconds it may take")
    run.add_argument("--logs", type=Path, help="folder for the workers' logs")
    run.add_argument("--keep", action="store_true", help="keep the lab when the job fails")
    run.add_argument("line", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    run.set_defaults(action=_run)
    down = actions.add_parser("down", help="remove a lab by name, with all that runs in it")
    down.add_argument("--all", action="store_true", help="remove every lab")
    down.set_defaults(action=_down)
    listing = actions.add_parser("list", help="names of the labs that stand")
    listing.set_defaults(action=_list)
    timing = [
        actions.add_parser("incast", help="senders to one receiver: TCP and the transport"),
        actions.add_parser("wire", help="the same under loss, each part switched off in turn"),
    ]
    for action, measure in zip(timing, (_incast, _wire)):
        _lab_wire.configure(action)
        action.set_defaults(action=measure)
    for action in (up, run, down, listing, *timing):
        action.add_argument("--json", action="store_true", help="print one JSON object")
    for action in (up, run, down):
        action.add_argument("--name", default=DEFAULT_NAME, help="the lab's name")
    for action in (up, run):
        action.add_argument("--set", action="append", default=[], metavar="PATH=VALUE",
                            help="change the cluster, such as link.rate=100Mbps")  # fmt: skip


def run(options: argparse.Namespace) -> Shown:
    action: Callable[[argparse.Namespace], Shown] = options.action
    return action(options)


def _up(options: argparse.Namespace) -> Shown:
    began = time.monotonic()
    layout = Lab(_cluster(options), options.name).up().layout
    data = {
        "name": layout.name,
        "workers": layout.workers,
        "namespaces": [layout.namespace(n) for n in range(len(layout.nodes))],
        "limits": list(layout.limits),
        "seconds": round(time.monotonic() - began, 3),
    }
    lines = [
        f"lab {layout.name}: {layout.workers} workers, {len(layout.wires)} links, "
        f"up in {data['seconds']} s",
        *(f"  note: {limit}" for limit in layout.limits),
    ]
    return Shown(data, _print(lines))


def _run(options: argparse.Namespace) -> Shown:
    command = options.line[1:] if options.line[:1] == ["--"] else options.line
    watch = None if options.json else _write
    if options.cluster:
        with Lab(_cluster(options), options.name) as lab:
            finished = _job(lab, command, options, watch)
    else:
        with nullcontext(Lab.find(options.name)) as lab:
            finished = _job(lab, command, options, watch)
    logs = [str(log) for log in finished.logs]
    lines = [f"ended well after {finished.seconds:.1f} s; logs in {finished.logs[0].parent}"]
    return Shown({"seconds": round(finished.seconds, 3), "logs": logs}, _print(lines))


def _job(
    lab: Lab, command: list[str], options: argparse.Namespace, watch: Callable[[str], None] | None
) -> Finished:
    """Run; a job that fails takes its lab with it unless it is to be kept."""
    try:
        return lab.run(command, timeout_s=options.timeout, logs=options.logs, watch=watch)
    except LabError:
        if not options.keep:
            lab.down()
        raise


def _incast(options: argparse.Namespace) -> Shown:
    return _lab_wire.incast(options)


def _wire(options: argparse.Namespace) -> Shown:
    return _lab_wire.wire(options)


def _down(options: argparse.Namespace) -> Shown:
    names = standing() if options.all else [options.name]
    if not options.all and options.name not in standing():
        known = ", ".join(standing()) or "none"
        raise LabError(f"there is no lab named {options.name!r}; standing: {known}")
    for name in names:
        tear_down(name)
    return Shown({"removed": names}, _print([f"removed {', '.join(names) or 'nothing'}"]))


def _list(options: argparse.Namespace) -> Shown:
    names = standing()
    return Shown({"labs": names}, _print(names or ["no lab stands"]))


def _cluster(options: argparse.Namespace) -> Cluster:
    return with_settings(load(options.cluster), options.set)


def _print(lines: list[str]) -> Callable[[Any], None]:
    return lambda console: console.print("\n".join(lines), markup=False)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
