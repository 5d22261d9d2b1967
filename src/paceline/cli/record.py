"""Record a training command: paceline record -o runs/a -- torchrun --nproc-per-node 2 train.py

The script needs no change; its output and exit code pass through. See `paceline show` next.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from paceline.cli import Shown


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder to record to")
    parser.add_argument("--steps", type=int, default=10, help="steps to record (10)")
    parser.add_argument(
        "--plain", type=int, default=5, help="steps timed without instruments, twice (5)"
    )
    parser.add_argument(
        "--turns",
        action="store_true",
        help="record a few steps at a time, in turn with plain ones: for a machine with neighbours",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an older recording")
    parser.add_argument("training", nargs=argparse.REMAINDER, metavar="-- COMMAND ...")


def run(options: argparse.Namespace) -> Shown:
    from paceline.history import keep, recording_entry
    from paceline.record.launch import RecordRequest, launch

    command = tuple(options.training)
    request = RecordRequest(
        command=command[1:] if command[:1] == ("--",) else command,
        folder=options.output,
        steps=options.steps,
        plain=options.plain,
        overwrite=options.overwrite,
        turns=options.turns,
    )
    done = launch(request, os.environ)
    sys.stdout.flush()
    if (entry := recording_entry(done.folder)) is not None:
        keep(entry)
    data = {
        "folder": str(done.folder),
        "exit_code": done.exit_code,
        "ranks": [vars(rank) for rank in done.ranks],
    }
    return Shown(data, lambda console: _render(data), done.exit_code)


def _render(data: dict[str, Any]) -> None:
    """To stderr: stdout belongs to the job."""
    ranks = data["ranks"]
    if not ranks:
        print(
            "paceline: nothing recorded: no optimizer stepped in the command's Python processes",
            file=sys.stderr,
        )
    for rank in ranks:
        why = f" ({rank['reason']}{': ' + rank['detail'] if rank['detail'] else ''})"
        print(
            f"paceline: rank {rank['rank']}: {rank['recorded']} of {rank['steps']} steps recorded"
            f" in {data['folder']}{'' if rank['reason'] == 'complete' else why}",
            file=sys.stderr,
        )
