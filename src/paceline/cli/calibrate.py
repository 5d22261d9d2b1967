"""Measure this machine, so that predictions rest on it: GEMM, copy, element-wise, all-reduce.

Fits latency and bandwidth to each sweep, with 90 % intervals, and how much compute and
communication slow each other. `--out` keeps the result for later predictions.
"""

import argparse
from pathlib import Path
from typing import Any

from paceline.cli import Shown


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workers", type=int, default=2, help="gloo workers (1: no all-reduce)")
    parser.add_argument("--repeats", type=int, default=15, help="runs of each size")
    parser.add_argument("--out", type=Path, help="keep the calibration in this JSON file")


def run(options: argparse.Namespace) -> Shown:
    from paceline.cost.calibrate import calibrate, summary

    made = calibrate(options.workers, options.repeats)
    if options.out:
        made.save(options.out)
    return Shown(summary(made), lambda console: _render(summary(made), console))


def _render(found: dict[str, Any], console: Any) -> None:
    for name, value in found.items():
        if isinstance(value, dict):
            console.print(f"{name}: " + ", ".join(f"{k} {v:,}" for k, v in value.items()))
        else:
            console.print(f"{name}: {value}")
