"""Measure this machine, so that predictions rest on it: `predict --calibration FILE`.

paceline measure --out here.json           # GEMM, copy, element-wise, all-reduce, overlap, codecs
paceline measure --lab --out here.json     # also what workers that share its cores take of them
paceline measure --for runs/a --out a.json # also how that job's operators run in other variants

Fits latency and bandwidth to each sweep, with 90 % intervals, and how much compute and
communication slow each other; for each codec of gradients what it takes, and the rate of links
below which it saves more time than that; and what messages between the workers of `paceline learn`
take of their processors. `--lab` also measures, between namespaces, what a byte
over TCP costs the cores, how late a message comes beside work, and the time of a call and of a
message; it needs what the lab needs (`paceline lab`).
"""

import argparse
from pathlib import Path
from typing import Any

from paceline.cli import Shown


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workers", type=int, default=2, help="gloo workers (1: no all-reduce)")
    parser.add_argument("--repeats", type=int, default=15, help="runs of each size")
    parser.add_argument("--lab", action="store_true", help="also what sharing the cores costs")
    parser.add_argument("--for", type=Path, dest="job", metavar="RUN",
                        help="a recording: its own operators in bfloat16, with channels last and "
                        "fused, each against the recorded way")  # fmt: skip
    parser.add_argument("--compiled", action="store_true",
                        help="with --for: also as torch.compile makes them (minutes)")  # fmt: skip
    parser.add_argument("--out", type=Path, help="keep the calibration in this JSON file")


def run(options: argparse.Namespace) -> Shown:
    from paceline.lab import said
    from paceline.learn.handling import handling
    from paceline.measure import Also, ForJob, measure, save, summary
    from paceline.strategies.torch_codec_times import codec_times

    job = ForJob(options.job, options.compiled) if options.job else None
    carried = handling if options.workers > 1 else None
    also = Also(said if options.lab else None, codec_times, job, carried)
    made = measure(options.workers, options.repeats, also)
    if options.out:
        save(made, options.out)
    return Shown(summary(made), lambda console: _render(summary(made), console))


def _render(found: dict[str, Any], console: Any) -> None:
    for name, value in found.items():
        if name == "codecs":
            for codec, told in value.items():
                console.print(f"codec {codec}: {_codec(told)}")
        elif isinstance(value, dict):
            console.print(f"{name}: " + ", ".join(f"{k} {_told(v)}" for k, v in value.items()))
        else:
            console.print(f"{name}: {value}")


def _codec(told: dict[str, Any]) -> str:
    took = ", ".join(f"{k.removesuffix('_ms')} {v} ms" for k, v in told.items() if k.endswith("ms"))
    pays = told["pays_below_bits_per_s"]
    below = f"pays below {pays / 1e9:.3g} Gbit/s" if pays else "never pays"
    return f"{below} ({took} of {told['gradients']:,} gradients)"


def _told(value: Any) -> str:
    """A figure, or one with its interval."""
    if isinstance(value, dict):
        return f"{value['value']:,} ({value['low']:,} to {value['high']:,})"
    return f"{value:,}" if isinstance(value, float) else str(value)
