"""Options that ask for changes of a recorded job and for what it runs on. Not a command.

Shared by `predict`, `verify` and `search`. Changes apply in turn: workers, a plan's, buckets,
batch, exchange and device as named by their own options, then every --with, then every --scale.
"""

import argparse
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli._arguments import (
    add_constants,
    calibration_of,
    constants_of,
    count,
    not_negative,
    positive,
)
from paceline.errors import PacelineError

if TYPE_CHECKING:
    from paceline.cluster import Cluster
    from paceline.cluster.machine import Machine
    from paceline.graph import Graph
    from paceline.history import Subject
    from paceline.measure import Calibration
    from paceline.predict import Prediction, Question
    from paceline.strategies import Strategy

MIB = 1024 * 1024


class OptionError(PacelineError):
    """Options that do not go together."""


@dataclass(frozen=True)
class PredictionRequest:
    """What the options ask for."""

    changes: "tuple[Strategy, ...]"
    cluster: "Cluster | None"
    question: "Question"


def add_question(parser: argparse.ArgumentParser) -> None:
    changes = parser.add_argument_group("changes")
    changes.add_argument("--with", action="append", default=[], dest="strategies",
                         metavar="STRATEGY", help="such as 'buckets(size_bytes=4194304)'; may be "
                         "repeated")  # fmt: skip
    changes.add_argument("--scale", action="append", default=[], metavar="SELECTION:FACTOR",
                         help="multiply durations, as in 'kind=transfer:0.5'; may be "
                         "repeated")  # fmt: skip
    changes.add_argument("--plan", type=Path, metavar="FILE",
                         help="what a plan changes; refused for another job than it was made "
                         "for")  # fmt: skip
    changes.add_argument("--workers", type=count, metavar="N",
                         help="that many data-parallel workers")  # fmt: skip
    changes.add_argument("--bucket-mb", type=positive, metavar="MB", help="DDP's bucket_cap_mb")
    changes.add_argument("--batch", type=positive, default=1.0, metavar="FACTOR",
                         help="each worker's batch, as a multiple of the recorded")  # fmt: skip
    changes.add_argument("--device", metavar="NAME", help="workers' device, such as h200")
    changes.add_argument("--recorded-device", default="", metavar="NAME",
                         help="the device recorded on (default: the GPU that the recording names, "
                         "else epyc-2c)")  # fmt: skip
    changes.add_argument("--exchange", choices=["all-reduce", "parameter-server"],
                         default="all-reduce", help="how gradients are shared")  # fmt: skip
    add_place(parser)


def add_correction(parser: argparse.ArgumentParser) -> None:
    """An option of `predicted`."""
    parser.add_argument("--no-correction", action="store_true",
                        help="leave out what earlier runs of the job taught")  # fmt: skip


def add_place(parser: argparse.ArgumentParser) -> None:
    place = parser.add_argument_group("what it runs on")
    place.add_argument("--cluster", metavar="FILE", help="predict for this cluster (YAML)")
    place.add_argument("--set", action="append", default=[], metavar="PATH=VALUE",
                       help="change the cluster, such as link.rate=100Gbps")  # fmt: skip
    place.add_argument("--cores", type=positive, default=0.0, metavar="N",
                       help="all workers share N cores of one machine, as in the lab")  # fmt: skip
    place.add_argument("--cpu-ns-per-byte", type=not_negative, metavar="NS",
                       help="processor time of a byte sent (default: as calibrated)")  # fmt: skip
    place.add_argument("--turn-ns", type=not_negative, metavar="NS",
                       help="how late a message comes beside work (the same)")  # fmt: skip
    place.add_argument("--calibration", type=Path, metavar="FILE",
                       help="rest on what `paceline measure --out FILE` found: of each "
                       "worker's machine, or with --cores of the one that all share")  # fmt: skip
    add_constants(place)


def asked(options: argparse.Namespace, run: str) -> PredictionRequest:
    """What the options ask for of a run; an error where some do not go together."""
    if options.recorded_device and not options.device:
        raise OptionError(
            "--recorded-device is of work that is carried to another device: give --device NAME too"
        )
    place = placed(options, run, options.device or "")
    return replace(place, changes=changes_of(options))


def placed(options: argparse.Namespace, run: str, device: str = "") -> PredictionRequest:
    """What the options of `add_place` ask for, on hosts of that device where one is named."""
    from paceline.predict import Question

    _require_cluster(options)
    _require_use(options, device)
    here = _here(options, run)
    calibration = calibration_of(options, here)
    cluster = _cluster(options, calibration, device)
    question = Question(
        _machine(options, calibration), calibration, constants=constants_of(options), here=here
    )
    return PredictionRequest((), cluster, question)


def _here(options: argparse.Namespace, run: str) -> str:
    """The machine that runs the job: this one where workers share its cores, else the recording's;
    "" where that is not told."""
    from paceline.history import host_machine_of
    from paceline.machine import this_machine

    if options.cores:
        return this_machine()
    return host_machine_of(Path(run)) if options.calibration else ""


def predicted(subject: "Subject", options: argparse.Namespace) -> "Prediction":
    """The prediction, with what the history teaches where that is wanted."""
    from paceline.history import predict_knowing
    from paceline.predict import predict

    if options.no_correction:
        question = replace(subject.question, lean=True)
        return predict(subject.graph, subject.changes, subject.cluster, question)
    return predict_knowing(subject)


def changes_of(options: argparse.Namespace) -> "tuple[Strategy, ...]":
    """The changes, in the order in which they apply."""
    from paceline.graph import scaling
    from paceline.strategies import load_plan, parse, strategy

    found: list[Strategy] = []
    if options.workers:
        found.append(strategy("workers", count=options.workers))
    if options.plan:
        found += load_plan(options.plan).strategies
    if options.bucket_mb is not None:
        found.append(strategy("buckets", size_bytes=round(options.bucket_mb * MIB)))
    if options.batch != 1.0:
        found.append(strategy("batch", factor=options.batch))
    if options.exchange == "parameter-server":
        found.append(strategy("parameter_server"))
    if options.device:
        found.append(strategy("device", name=options.device, recorded=options.recorded_device))
    found += [parse(text) for text in options.strategies]
    for selection, factor in map(scaling, options.scale):
        found.append(strategy("scale", select=selection, factor=factor))
    return tuple(found)


def differs(
    options: argparse.Namespace, graph: "Graph", wanted: PredictionRequest
) -> tuple[str, ...]:
    """What has changed since the plan that is asked for was made, and for what it is therefore
    priced anew; an error where it does not fit the job."""
    from paceline.strategies import load_plan
    from paceline.strategies.plan import differences

    return differences(load_plan(options.plan), graph, wanted.cluster) if options.plan else ()


def prediction_data(found: "Prediction") -> dict[str, Any]:
    """A prediction as plain data."""
    return {
        "workers": found.workers,
        "step_ns": found.step_ns,
        "low_ns": found.low_ns,
        "high_ns": found.high_ns,
        "by_class_ns": dict(found.by_class),
        "samples": found.samples,
        "batch_ns": found.batch_ns,
        "rests_on": list(found.rests_on),
        "correction": _correction(found),
        "memory": [asdict(peak) for peak in found.memory.ranks] if found.memory else None,
    }


def _correction(found: "Prediction") -> dict[str, float] | None:
    by = found.correction
    return {"work": by.work, "communication": by.communication} if by else None


def ms(value_ns: float) -> str:
    return f"{value_ns / 1e6:,.1f} ms"


def _require_cluster(options: argparse.Namespace) -> None:
    """Options that say something of a cluster need one."""
    named = {
        "--set": options.set,
        "--cores": options.cores,
        "--cpu-ns-per-byte": options.cpu_ns_per_byte,
        "--turn-ns": options.turn_ns,
    }
    given = [name for name, value in named.items() if value]
    if given and not options.cluster:
        raise OptionError(
            f"{given[0]} needs --cluster FILE, which says what the job then runs on; "
            "see docs/how/clusters.md"
        )


def _require_use(options: argparse.Namespace, device: str) -> None:
    """Options that would be ignored are refused."""
    if not options.cores and (options.cpu_ns_per_byte is not None or options.turn_ns is not None):
        raise OptionError(
            "--cpu-ns-per-byte and --turn-ns are of a machine whose cores all workers share: "
            "give --cores too"
        )
    if options.constants and not (options.cluster or device):
        raise OptionError(
            "--constants is of forecasts, which price work on a cluster or on another device: give "
            "--cluster FILE or --device NAME too"
        )


def _cluster(
    options: argparse.Namespace, calibration: "Calibration | None", device: str
) -> "Cluster | None":
    from paceline.cluster import files, load, with_settings
    from paceline.cluster.tcp import over_tcp

    if not options.cluster:
        return None
    cluster = with_settings(load(options.cluster), options.set)
    if device:
        chosen = files.device(device)
        hosts = tuple(replace(host, device=chosen) for host in cluster.hosts)
        cluster = replace(cluster, hosts=hosts)
    elif calibration and not options.cores:
        cluster = calibration.applied(cluster)
    return over_tcp(cluster) if options.cores else cluster


def _machine(options: argparse.Namespace, calibration: "Calibration | None") -> "Machine | None":
    """As measured, where it was; options of its own go before."""
    from paceline.cluster.machine import Machine

    if not options.cores:
        return None
    given = {"cpu_ns_per_byte": options.cpu_ns_per_byte, "turn_ns": options.turn_ns}
    settings = {name: value for name, value in given.items() if value is not None}
    shared = calibration.shared if calibration else None
    machine = shared.machine(options.cores) if shared else Machine(options.cores)
    return replace(machine, **settings)
