"""Serve a model on CPUs: instances, threads and batches by a plan; the plan follows the load.

paceline serve model.py:build --cores 16 --batch 32
paceline serve model.py:build --batch 32 --plan-only [--measure]

`build()` in the file returns (model, example input). Its latency over threads and batch is measured
once and kept; an exact search divides the batch among pinned instances; requests are answered at
http://127.0.0.1:8000/predict, for this machine alone unless --host says otherwise. See
docs/how/serve.md.
"""

import argparse
import asyncio
import os
import sys
from typing import Any

from paceline.cli import Shown
from paceline.cli._arguments import count


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="FILE.py:FUNCTION", help="what returns (model, example)")
    parser.add_argument("--cores", type=count, help="cores to use (all)")
    parser.add_argument("--batch", type=count, default=32, metavar="SAMPLES",
                        help="most samples that are run at once (32)")  # fmt: skip
    parser.add_argument("--fresh-profile", action="store_true", help="measure the latency again")
    parser.add_argument("--as-written", action="store_true",
                        help="leave weights as they are: none prepacked, none folded")  # fmt: skip
    _plan(parser.add_argument_group("plan"))
    _server(parser.add_argument_group("server"))


def _plan(group: Any) -> None:
    group.add_argument("--plan-only", action="store_true",
                       help="print the plan beside plain choices, and end")  # fmt: skip
    group.add_argument("--measure", action="store_true",
                       help="with --plan-only: also run each of them")  # fmt: skip


def _server(group: Any) -> None:
    group.add_argument("--host", default="127.0.0.1",
                       help="address to listen on (127.0.0.1: this machine alone)")  # fmt: skip
    group.add_argument("--port", type=int, default=8000, help="port (8000); 0 takes a free one")
    group.add_argument("--window-ms", type=float, default=2.0,
                       help="how long a request waits for others (2)")  # fmt: skip
    group.add_argument("--queue", type=count, metavar="SAMPLES",
                       help="samples that may wait (16 batches)")  # fmt: skip
    group.add_argument("--limit-s", type=float, default=60.0,
                       help="seconds after which an instance counts as hung (60)")  # fmt: skip
    group.add_argument("--fixed", action="store_true", help="keep the plan whatever the load")


def run(options: argparse.Namespace) -> Shown | int:
    from paceline.errors import PacelineError
    from paceline.launch import unwinding
    from paceline.serve import require_web

    if options.measure and not options.plan_only:
        raise PacelineError("--measure goes with --plan-only")
    if not options.plan_only:
        require_web()
    with unwinding():
        if options.plan_only:
            return asyncio.run(_planned(options))
        return asyncio.run(_served(options))


async def _planned(options: argparse.Namespace) -> Shown:
    from paceline.serve import prepared

    async with prepared(_job(options), _said) as found:
        rows = found.rows(options.batch)
        if options.measure:
            rows = await found.measured(rows, 3)
        data = {
            "batch": options.batch,
            "cores": found.job.cores,
            "profile": {
                "date": found.profile.date,
                "points": len(found.profile.points),
                "prepacked": found.profile.prepacked,
            },
            "rows": [_row(row) for row in rows],
        }
        return Shown(data, lambda console: _render(found.profile, rows, options.batch, console))


async def _served(options: argparse.Namespace) -> int:
    from paceline.serve import Address, Rules, prepared, serve

    rules = Rules(
        window_ns=round(options.window_ms * 1e6),
        capacity=options.queue or 16 * options.batch,
        limit_s=options.limit_s,
        follows=not options.fixed,
    )
    async with prepared(_job(options), _said) as found:
        _said(f"plan for batches of {options.batch}: {found.plan(options.batch)}")
        await serve(found, rules, Address(options.host, options.port), _said)
    return 0


def _job(options: argparse.Namespace) -> Any:
    from paceline.machine import usable_cores
    from paceline.serve import ServeJob, folder

    cores = options.cores or usable_cores()
    kept = folder(os.environ)
    return ServeJob(
        options.target, cores, options.batch, kept, options.fresh_profile, options.as_written
    )


def _said(line: str) -> None:
    print(f"paceline: {line}", file=sys.stderr, flush=True)


def _row(row: Any) -> dict[str, Any]:
    return {
        "name": row.name,
        "instances": [vars(share) for share in row.plan.shares],
        "latency_ns": row.plan.latency_ns,
        "runs_ns": list(row.runs_ns),
    }


def _render(profile: Any, rows: Any, batch: int, console: Any) -> None:
    from paceline.report.text.serving import profile_lines, serving_table

    for line in profile_lines(profile):
        console.print(line)
    console.print(serving_table(rows, batch))
