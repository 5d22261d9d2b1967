"""Plan a language model on a cluster: how to share it over devices, and whether it fits.

MODEL is the name of a model that comes with Paceline (llama3-70b, deepseek-v3, ...), or a YAML file
that describes one. CLUSTER is a cluster's file, or a system and a number of devices, such as
dgx-h100:64. Every rank's memory is a hard limit. Nothing is run: kernels are priced from data
sheets and published tables, and each plan's step is replayed.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli import Shown
from paceline.cli._arguments import count
from paceline.errors import PacelineError

if TYPE_CHECKING:
    from paceline.cost.decoder import Site
    from paceline.place.hybrid import Planned, Question

FRAMEWORKS = ("megatron", "torchtitan", "torchtitan-compile")
EXPORTS = ("torchtitan", "megatron", "deepspeed", "accelerate", "torch")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="see above")
    parser.add_argument("--cluster", required=True, metavar="CLUSTER", help="see above")
    parser.add_argument("--devices", type=count, metavar="N",
                        help="use so many of the cluster's devices (all)")  # fmt: skip
    parser.add_argument("--batch", type=count, default=0, metavar="N",
                        help="sequences per step of all devices (4 per device)")  # fmt: skip
    parser.add_argument("--sequence", type=count, default=0, metavar="N",
                        help="tokens of a sequence (the model's own)")  # fmt: skip
    parser.add_argument("--precision", default="bf16", metavar="TYPE",
                        help="bf16, fp16, fp8, fp8-cs, fp8-mx or nvfp4 (bf16)")  # fmt: skip
    parser.add_argument("--framework", choices=FRAMEWORKS, default="megatron",
                        help="whose habits and kernels are priced (megatron)")  # fmt: skip
    parser.add_argument("--own", default="", metavar="PLAN",
                        help="your plan, as a row of the table: tp=4,pp=8,mbs=2")  # fmt: skip
    parser.add_argument("--reserve", type=float, default=0.05, metavar="SHARE",
                        help="part of the memory to keep free (0.05)")  # fmt: skip
    parser.add_argument("--factor", type=float, metavar="F",
                        help="by how much your kernels take longer than forecast (the usual "
                             "factor of the framework)")  # fmt: skip
    parser.add_argument("--export", choices=EXPORTS, action="append", default=[],
                        help="write the best plan for this framework; may be repeated")  # fmt: skip
    parser.add_argument("-o", "--out", type=Path, default=Path("plan"), metavar="FOLDER",
                        help="where exported files go (plan)")  # fmt: skip


def run(options: argparse.Namespace) -> Shown:
    from paceline.place.hybrid import plan
    from paceline.report.progress import working
    from paceline.report.text import hybrid_parts

    question = _question(options)
    with working("planning"):
        planned = plan(question, options.own)
    written = _export(planned, options)
    data = {**_data(planned), "written": [str(path) for path in written]}

    def render(console: Any) -> None:
        for part in hybrid_parts(planned):
            console.print(part)
        for path in written:
            console.print(f"written: {path}")

    return Shown(data, render)


def _question(options: argparse.Namespace) -> "Question":
    from paceline.imagine.decoder import HABITS, Precision, decoder
    from paceline.place.hybrid import Question

    known = [one.value for one in Precision]
    if options.precision not in known:
        raise PacelineError(f"precision {options.precision!r}; known: {', '.join(known)}")
    if options.factor is not None and not 0.05 <= options.factor <= 20:
        raise PacelineError(f"--factor is {options.factor:g}; give a number from 0.05 to 20")
    site = _site(options.cluster, options.devices or 0)
    return Question(
        model=decoder(options.model),
        site=site,
        global_batch=options.batch or 4 * site.ranks,
        sequence=options.sequence,
        precision=Precision(options.precision),
        habits=HABITS[options.framework],
        reserve=options.reserve,
        factor=options.factor or 0.0,
    )


def _site(text: str, devices: int) -> "Site":
    """Of a cluster's file, or of `system:devices`, whose hosts are all whole."""
    from paceline.cluster import from_document, load
    from paceline.cost.decoder import site_of

    system, colon, number = text.rpartition(":")
    if Path(text).exists() or not colon:
        return site_of(load(text), devices)
    if not number.isdecimal() or not int(number):
        raise PacelineError(
            f"cluster {text!r} is no file; give one, or SYSTEM:DEVICES such as dgx-h100:64"
        )
    each = from_document({"hosts": {"system": system}}).workers
    hosts = {"system": system, "count": -(-int(number) // each)}
    return site_of(from_document({"hosts": hosts}), devices or int(number))


def _export(planned: "Planned", options: argparse.Namespace) -> list[Path]:
    from paceline.place.hybrid.exports import EXPORTS

    written: list[Path] = []
    for name in dict.fromkeys(options.export):
        for file, text in EXPORTS[name](planned.best.job).items():
            options.out.mkdir(parents=True, exist_ok=True)
            written.append(options.out / file)
            written[-1].write_text(text)
    return written


def _data(planned: "Planned") -> dict[str, Any]:
    from paceline.place.hybrid import spelled

    found = planned.search
    return {
        "plans": [
            {
                "name": row.name,
                "plan": spelled(row.priced.job),
                "fits": row.fits,
                "step_ms": row.priced.step_ns / 1e6,
                "bound_ms": row.priced.bound_ns / 1e6,
                "tokens_per_s_per_device": row.priced.tokens_per_s,
                "tflops_per_device": row.priced.flops_per_s / 1e12,
                "memory_bytes": row.priced.peak.total,
                "memory": {one.name.lower(): n for one, n in row.priced.peak.held.items()},
                "parts_ms": {name: ns / 1e6 for name, ns in row.priced.parts.items()},
            }
            for row in planned.rows
        ],
        "reasons": [vars(reason) for reason in planned.reasons],
        "considered": found.considered,
        "do_not_fit": len(found.oversized),
        "do_not_fit_by": {one.name.lower(): n for one, n in found.categories.items()},
        "dominated_by_bound": found.pruned,
        "replayed": len(found.priced),
    }
