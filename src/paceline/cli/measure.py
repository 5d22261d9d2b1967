"""Measure this machine, so that predictions rest on it: `predict --calibration FILE`.

paceline measure --out here.json           # GEMM, copy, element-wise, all-reduce, overlap, codecs
paceline measure --lab --out here.json     # also what workers that share its cores take of them
paceline measure --for runs/a --out a.json # also how that job's operators run in other variants
paceline measure --gpu here                # this machine's GPU: here/constants.npz for --constants

Fits latency and bandwidth to each sweep, with 90 % intervals, and how much compute and
communication slow each other; for each codec of gradients what it takes, and the rate of links
below which it saves more time than that; and what messages between the workers of `paceline learn`
take of their processors. `--lab` also measures, between namespaces, what a byte costs the cores
over TCP and over the transport of `bounded_loss`, how late a message comes beside work, the time of
a call and of a message, and each codec while every core runs it; it needs what the lab needs
(`paceline lab`).

`--gpu` times kernels on the GPU that torch sees, for less than a minute, and corrects forecasts of
that device by them. It keeps them as tables, which `paceline fit` reads.
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli import Shown

if TYPE_CHECKING:
    from paceline.cost.forecast.refining import Refined


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workers", type=int, default=2, help="gloo workers (1: no all-reduce)")
    parser.add_argument("--repeats", type=int, default=15, help="runs of each size")
    parser.add_argument("--lab", action="store_true", help="also what sharing the cores costs")
    parser.add_argument("--for", type=Path, dest="job", metavar="RUN",
                        help="a recording: its own operators in bfloat16, with channels last, "
                        "fused, or of circulant blocks, each against the recorded way")  # fmt: skip
    parser.add_argument("--compiled", action="store_true",
                        help="with --for: also as torch.compile makes them (minutes)")  # fmt: skip
    parser.add_argument("--out", type=Path, help="keep the calibration in this JSON file")
    parser.add_argument("--gpu", type=Path, metavar="FOLDER",
                        help="measure this machine's GPU and nothing else: tables of its kernels, "
                        "and constants.npz for --constants")  # fmt: skip


def run(options: argparse.Namespace) -> Shown:
    from paceline.engine import native
    from paceline.lab import said
    from paceline.learn.handling import handling
    from paceline.measure import Also, ForJob, measure, save, summary
    from paceline.strategies.torch_border_times import border_times
    from paceline.strategies.torch_circulant_times import LAYER_CHANGES
    from paceline.strategies.torch_codec_times import codec_times
    from paceline.strategies.torch_crowded_codecs import crowded_codec_times
    from paceline.wire.torch_costs import datagram_cost

    if options.gpu:
        return _gpu(options)
    job = ForJob(options.job, options.compiled, LAYER_CHANGES) if options.job else None
    carried = handling if options.workers > 1 else None
    also = Also(codecs=codec_times, borders=border_times, job=job, handling=carried)
    if options.lab:
        crowded = partial(crowded_codec_times, said)
        datagrams = datagram_cost if native() is not None else None
        also = replace(also, in_lab=said, crowded_codecs=crowded, datagrams=datagrams)
    made = measure(options.workers, options.repeats, also)
    if options.out:
        save(made, options.out)
    return Shown(summary(made), lambda console: _render(summary(made), console))


def _gpu(options: argparse.Namespace) -> Shown:
    from paceline.measure import MeasureError
    from paceline.measure.gpu_shapes import shapes
    from paceline.measure.measured_gpu import CONSTANTS, measured_gpu
    from paceline.measure.torch_host import call_ns
    from paceline.measure.torch_kernels import gpu_bench, gpu_seen, timed
    from paceline.report.progress import tracked

    if options.lab or options.job or options.out:
        raise MeasureError("--gpu measures the GPU alone: leave --lab, --for and --out away")
    bench, wanted = gpu_bench(), list(shapes())
    found = tracked(timed(bench, wanted), "measuring kernels", len(wanted))
    call, out = call_ns(bench.device), options.gpu / CONSTANTS
    told = measured_gpu(options.gpu, gpu_seen(), found, call)
    data = {"file": str(out), "call_ns": call, "refined": [asdict(row) for row in told]}
    return Shown(data, lambda console: _render_gpu(told, data, console))


def _render_gpu(told: "Sequence[Refined]", data: dict[str, Any], console: Any) -> None:
    from paceline.report.text.refined import refined_lines

    lines = [
        *refined_lines(told),
        f"its host spends {data['call_ns'] / 1e3:.1f} us on a call of an operator",
        f"written to {data['file']}; forecast by it with --constants {data['file']}",
    ]
    console.print("\n".join(lines), markup=False, soft_wrap=True)


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
