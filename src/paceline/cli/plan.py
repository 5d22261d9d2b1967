"""Plan a language model on a cluster: how to share it over devices, and whether it fits.

MODEL is the name of a model that comes with Paceline (llama3-70b, deepseek-v3, ...), a YAML file
that describes one, or the folder of a recorded or imagined run of your own script: its repeated
blocks become the model, and what was recorded of their times is kept as it is. CLUSTER is a
cluster's file, or a system and a number of devices, such as dgx-h100:64. Every rank's memory is a
hard limit. Nothing is run: kernels are priced from data sheets and published tables where nothing
was recorded, and each plan's step is replayed.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli import Shown
from paceline.cli._arguments import add_constants, calibration_of, constants_of, count, positive
from paceline.errors import PacelineError

if TYPE_CHECKING:
    from paceline.cluster import Cluster
    from paceline.cluster.machine import Machine
    from paceline.cost.decoder import Site
    from paceline.imagine.decoder.routing import Counts
    from paceline.place.hybrid import Planned, PlanQuestion

FRAMEWORKS = ("megatron", "torchtitan", "torchtitan-compile", "torch")
EXPORTS = ("torchtitan", "megatron", "deepspeed", "accelerate", "torch")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="see above")
    parser.add_argument("--cluster", required=True, metavar="CLUSTER", help="see above")
    parser.add_argument("--devices", type=count, metavar="N",
                        help="use so many of the cluster's devices (all)")  # fmt: skip
    parser.add_argument("--cores", type=positive, default=0.0, metavar="N",
                        help="all workers share N cores of one machine, as in the lab")  # fmt: skip
    parser.add_argument("--calibration", type=Path, metavar="FILE",
                        help="with --cores: what gloo, rests and DTensors cost that machine, from "
                             "`paceline measure --lab`")  # fmt: skip
    parser.add_argument("--batch", type=count, default=0, metavar="N",
                        help="sequences per step of all devices (4 per device; for a run as "
                             "many as its workers had)")  # fmt: skip
    parser.add_argument("--sequence", type=count, default=0, metavar="N",
                        help="tokens of a sequence (the model's own)")  # fmt: skip
    parser.add_argument("--precision", metavar="TYPE",
                        help="fp32, bf16, fp16, fp8, fp8-cs, fp8-mx or nvfp4 (bf16, or as "
                             "recorded)")  # fmt: skip
    parser.add_argument("--routing", type=Path, metavar="FILE",
                        help="rows that fell on each expert: counts in a JSON file, or a recorded "
                             "run (balanced)")  # fmt: skip
    parser.add_argument("--framework", choices=FRAMEWORKS,
                        help="whose habits and kernels are priced (megatron; torch for a "
                             "run)")  # fmt: skip
    parser.add_argument("--recorded-device", default="", metavar="NAME",
                        help="what a run was recorded on (the GPU that it names, or the cluster's "
                             "processor)")  # fmt: skip
    parser.add_argument("--own", default="", metavar="PLAN",
                        help="your plan, as a row of the table: tp=4,pp=8,mbs=2")  # fmt: skip
    parser.add_argument("--reserve", type=float, default=0.05, metavar="SHARE",
                        help="part of the memory to keep free (0.05)")  # fmt: skip
    parser.add_argument("--factor", type=float, metavar="F",
                        help="by how much your kernels take longer than forecast (the usual "
                             "factor of the framework)")  # fmt: skip
    add_constants(parser)
    parser.add_argument("--export", choices=EXPORTS, action="append", default=[],
                        help="write the best plan for this framework; may be repeated")  # fmt: skip
    parser.add_argument("-o", "--out", type=Path, default=Path("plan"), metavar="FOLDER",
                        help="where exported files go (plan)")  # fmt: skip


def run(options: argparse.Namespace) -> Shown:
    from paceline.place.hybrid import plan
    from paceline.report.progress import working
    from paceline.report.text.hybrid import hybrid_parts

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


def _question(options: argparse.Namespace) -> "PlanQuestion":
    if options.factor is not None and not 0.05 <= options.factor <= 20:
        raise PacelineError(f"--factor is {options.factor:g}; give a number from 0.05 to 20")
    site = _site(options)
    given = {
        "sequence": options.sequence,
        "reserve": options.reserve,
        "factor": options.factor or 0.0,
        "constants": constants_of(options),
        **_named(options),
    }
    if Path(options.model).is_dir():
        return _recorded(options, site, given)
    return _described(options, site, given)


def _described(options: argparse.Namespace, site: "Site", given: dict[str, Any]) -> "PlanQuestion":
    """Of a model by its dimensions."""
    from paceline.imagine.decoder import decoder, routed
    from paceline.place.hybrid import PlanQuestion

    model = decoder(options.model)
    model = routed(model, _routing(options.routing)) if options.routing else model
    return PlanQuestion(model, site, options.batch or 4 * site.ranks, **given)


def _routing(path: Path) -> "Counts":
    from paceline.imagine.decoder import read_routing
    from paceline.place.hybrid.recorded import routing_of
    from paceline.trace.runs import open_run

    return routing_of(open_run(path)) if path.is_dir() else read_routing(path)


def _recorded(options: argparse.Namespace, site: "Site", given: dict[str, Any]) -> "PlanQuestion":
    """Of the blocks of a run; `--factor` is of forecasts, and stands against what was timed."""
    from paceline.place.hybrid.recorded import RecordedAs, recorded_model
    from paceline.trace.runs import open_run

    if options.routing:
        raise PacelineError("--routing is for a model by its dimensions; a run's blocks have none")
    path = Path(options.model)
    as_ = RecordedAs(path.resolve().name, options.recorded_device)
    job = recorded_model(open_run(path), as_)
    if options.factor and job.spent:
        raise PacelineError(
            f"--factor is of kernels that nobody timed, and {path} holds recorded times; leave it "
            "away, or give the imagined run"
        )
    return job.question(site, **given, **({"global_batch": options.batch} if options.batch else {}))


def _named(options: argparse.Namespace) -> dict[str, Any]:
    """The type and the framework, where they are named."""
    from paceline.imagine.decoder import HABITS, Precision

    known = [one.value for one in Precision]
    if options.precision is not None and options.precision not in known:
        raise PacelineError(f"precision {options.precision!r}; known: {', '.join(known)}")
    precision = {"precision": Precision(options.precision)} if options.precision else {}
    habits = {"habits": HABITS[options.framework]} if options.framework else {}
    return {**precision, **habits}


def _site(options: argparse.Namespace) -> "Site":
    """Of a cluster's file, or of `system:devices`, whose hosts are all whole."""
    from paceline.cluster import from_document, load
    from paceline.cost.decoder import site_of

    text, devices, machine = options.cluster, options.devices or 0, _machine(options)
    system, colon, number = text.rpartition(":")
    if Path(text).exists() or not colon:
        return site_of(_over_network(load(text)), devices, machine)
    if not number.isdecimal() or not int(number):
        raise PacelineError(
            f"cluster {text!r} is no file; give one, or SYSTEM:DEVICES such as dgx-h100:64"
        )
    each = from_document({"hosts": {"system": system}}).workers
    hosts = {"system": system, "count": -(-int(number) // each)}
    return site_of(from_document({"hosts": hosts}), devices or int(number), machine)


def _machine(options: argparse.Namespace) -> "Machine | None":
    """Whose cores all workers share, with what was measured of it."""
    from paceline.cluster.machine import Machine
    from paceline.machine import this_machine

    if not options.calibration:
        return Machine(options.cores) if options.cores else None
    if not options.cores:
        raise PacelineError("--calibration is of cores that workers share; give --cores N too")
    made = calibration_of(options, this_machine())
    if made is None or made.shared is None:
        raise PacelineError(
            f"{options.calibration} tells nothing of shared cores; make one with `paceline "
            "measure --lab --out FILE`"
        )
    return made.shared.machine(options.cores)


def _over_network(cluster: "Cluster") -> "Cluster":
    """Processors exchange over TCP."""
    from paceline.cluster.tcp import over_tcp
    from paceline.graph import DeviceKind

    return over_tcp(cluster) if cluster.hosts[0].device.kind is DeviceKind.CPU else cluster


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
