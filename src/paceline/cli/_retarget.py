"""Options that carry a recording over to another cluster. Not a command.

Shared by `predict` and `verify`: --cluster, --set, --workers, --bucket-mb, --batch, --device,
--exchange, --cores, --calibration.
"""

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli._arguments import count
from paceline.errors import PacelineError

if TYPE_CHECKING:
    from paceline.cluster import Cluster, Device
    from paceline.cost.calibrate import Calibration
    from paceline.cost.retarget import Target
    from paceline.graph import Graph
    from paceline.verify import Prediction, SharedMachine

MIB = 1024 * 1024


class OptionError(PacelineError):
    """Options that do not go together."""


@dataclass(frozen=True)
class Wanted:
    """What the options ask for."""

    graph: "Graph"
    cluster: "Cluster"
    target: "Target"
    machine: "SharedMachine | None" = None  # its cores are shared by all workers, as in the lab
    recorded_on: "Device | None" = None  # of recorded kernels, where another device is asked for
    calibration: "Calibration | None" = None


def add_target(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("another cluster")
    group.add_argument("--cluster", metavar="FILE", help="predict for this cluster (YAML)")
    group.add_argument("--set", action="append", default=[], metavar="PATH=VALUE",
                       help="change the cluster, such as link.rate=100Gbps")  # fmt: skip
    group.add_argument("--workers", type=count, metavar="N", help="that many data-parallel workers")
    group.add_argument("--bucket-mb", type=float, metavar="MB", help="DDP's bucket_cap_mb")
    group.add_argument("--batch", type=float, default=1.0, metavar="FACTOR",
                       help="each worker's batch, as a multiple of the recorded")  # fmt: skip
    group.add_argument("--device", metavar="NAME", help="workers' device, such as h200")
    group.add_argument("--recorded-device", default="epyc-2c", metavar="NAME",
                       help="the device recorded on (default epyc-2c)")  # fmt: skip
    group.add_argument("--exchange", choices=["all-reduce", "parameter-server"],
                       default="all-reduce", help="how gradients are shared")  # fmt: skip
    group.add_argument("--cores", type=float, default=0.0, metavar="N",
                       help="all workers share N cores of one machine, as in the lab")  # fmt: skip
    group.add_argument("--calibration", type=Path, metavar="FILE",
                       help="price by what `paceline calibrate --out FILE` measured")  # fmt: skip
    group.add_argument("--cpu-ns-per-byte", type=float, metavar="NS",
                       help="processor time of a byte sent (paceline lab calibrate)")  # fmt: skip
    group.add_argument("--turn-ns", type=float, metavar="NS",
                       help="how late a message comes beside work (the same)")  # fmt: skip


def asked(options: argparse.Namespace) -> bool:
    """Whether any option asks for another cluster."""
    named = (options.cluster, options.set, options.workers, options.bucket_mb, options.device,
             options.calibration)  # fmt: skip
    return any(named) or options.batch != 1.0 or options.exchange != "all-reduce"


def wanted(options: argparse.Namespace, graph: "Graph") -> Wanted:
    from paceline.cluster import load, with_settings
    from paceline.cluster.files import device
    from paceline.cost import calibrate
    from paceline.cost.retarget import Exchange, Target

    if not options.cluster:
        raise OptionError(
            "another number of workers, link, device or bucket needs --cluster FILE, which says "
            "what the job then runs on; see docs/how/clusters.md"
        )
    cluster = with_settings(load(options.cluster), options.set)
    if options.device:
        chosen = device(options.device)
        hosts = tuple(replace(host, device=chosen) for host in cluster.hosts)
        cluster = replace(cluster, hosts=hosts)
    recorded_on = _recorded_on(options, graph)
    target = Target(
        workers=options.workers or 0,
        bucket_bytes=round((options.bucket_mb or 0) * MIB),
        batch=options.batch,
        compute=1.0 if recorded_on else _factor(options),
        exchange=Exchange(options.exchange),
    )
    if options.cores:
        cluster = over_tcp(cluster)
    calibration = calibrate.load(options.calibration) if options.calibration else None
    return Wanted(graph, cluster, target, _machine(options), recorded_on, calibration)


def over_tcp(cluster: "Cluster") -> "Cluster":
    """With TCP's share of each rate, where the cluster file does not give one."""
    from paceline.verify import tcp_share

    transport = cluster.transport
    if transport.efficiency != 1.0:
        return cluster
    share = tcp_share(transport.gso_max_segs)
    return replace(cluster, transport=replace(transport, efficiency=share))


def read_recording(path: str) -> "Graph":
    """The graph of a recording's folder, or whatever graph stands there."""
    from paceline.trace.runs import open_run

    return open_run(path)


def predicted(asked_for: Wanted) -> "Prediction":
    """Put the job together anew where its parts change; else price the graph where it stands."""
    from paceline.cost import Rates
    from paceline.cost.retarget import Exchange, RetargetError, read_job
    from paceline.verify import predict, predict_in_place

    target, graph, machine = asked_for.target, asked_for.graph, asked_for.machine
    made = asked_for.calibration
    rates, overlap = (made.rates(), made.overlap) if made else (None, None)
    rebuilt = (
        target.workers not in (0, len(graph.ranks))
        or target.bucket_bytes > 0
        or target.batch != 1.0
        or target.exchange is not Exchange.ALL_REDUCE
        or machine is not None
    )
    try:
        job = read_job(graph)
        return predict(
            job, asked_for.cluster, target, machine=machine, rates=rates, overlap=overlap
        )
    except RetargetError:
        if rebuilt:
            raise
        rates = replace(rates or Rates(), recorded_on=asked_for.recorded_on)
        return predict_in_place(
            graph, asked_for.cluster, compute=target.compute, rates=rates, overlap=overlap
        )


def prediction_data(found: "Prediction") -> dict[str, Any]:
    return {
        "workers": found.workers,
        "step_ns": found.step_ns,
        "low_ns": found.low_ns,
        "high_ns": found.high_ns,
        "by_class_ns": dict(found.by_class),
        "rests_on": list(found.rests_on),
    }


def prediction_lines(found: "Prediction") -> list[str]:
    lines = [
        f"step on {found.workers} workers: {ms(found.step_ns)} "
        f"(typical error: {ms(found.low_ns)} to {ms(found.high_ns)})"
    ]
    lines += [f"  {name:<14}{ms(value):>12}" for name, value in found.by_class.items() if value]
    return [*lines, *(f"rests on {reason}" for reason in found.rests_on)]


def ms(value_ns: float) -> str:
    return f"{value_ns / 1e6:,.1f} ms"


def _machine(options: argparse.Namespace) -> "SharedMachine | None":
    from paceline.verify import SharedMachine

    if not options.cores:
        return None
    given = {"cpu_ns_per_byte": options.cpu_ns_per_byte, "turn_ns": options.turn_ns}
    told = {name: value for name, value in given.items() if value is not None}
    return replace(SharedMachine(options.cores), **told)


def _recorded_on(options: argparse.Namespace, graph: "Graph") -> "Device | None":
    """The GPU that recorded kernels ran on, where they are to run on another device."""
    from paceline.cluster.files import device
    from paceline.graph import DeviceKind, LaneKind

    if not options.device or not (graph.lanes.kind == LaneKind.STREAM).any():
        return None
    origin = device(options.recorded_device)
    if origin.kind is not DeviceKind.GPU:
        raise OptionError(
            f"the recording has kernels of a GPU, but --recorded-device is {origin.name}, "
            "a processor; name the GPU that it was recorded on, such as --recorded-device a100-80"
        )
    return origin


def _factor(options: argparse.Namespace) -> float:
    from paceline.cluster.files import device
    from paceline.cost.retarget import device_factor
    from paceline.graph import DType

    if not options.device:
        return 1.0
    origin, destination = device(options.recorded_device), device(options.device)
    return device_factor(origin, destination, DType.FLOAT32).middle
