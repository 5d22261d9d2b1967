"""Imagine a training script at any number of workers: a graph without running or recording it.

The script runs unchanged as one rank of N, on tensors that have shapes and no data, until a steady
step is known. With --cluster or --device the graph is priced, so that `show` and `predict` can
replay it: work on a GPU by forecasts of its operators, else by the device's rates.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli import Shown
from paceline.cli._arguments import add_constants, constants_of, count, positive

if TYPE_CHECKING:
    from paceline.cluster import Cluster
    from paceline.graph import Graph


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--out", type=Path, default=Path("runs/imagine"), metavar="FOLDER",
                        help="folder of the new run (runs/imagine)")  # fmt: skip
    parser.add_argument("--world-size", type=count, default=1, metavar="N", help="workers (1)")
    parser.add_argument("--steps", type=count, default=1, help="steady steps to keep (1)")
    parser.add_argument("--settle", type=count, default=0, metavar="N",
                        help="steps to let pass first (default: as torch needs)")  # fmt: skip
    parser.add_argument(
        "--ranks", help="ranks to imagine: 0,3 or all (default: 0, and its message partners)"
    )
    parser.add_argument("--forward", action="store_true",
                        help="steps are calls of the model: scripts that do not train")  # fmt: skip
    parser.add_argument("--cluster", metavar="FILE", help="price for this cluster (YAML)")
    parser.add_argument("--device", metavar="NAME", help="price for this device, such as h100")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE",
                        help="change the cluster, such as link.rate=100Gbps")  # fmt: skip
    add_constants(parser)
    parser.add_argument("--timeout", type=positive, default=600.0, metavar="S", help="a rank (600)")
    parser.add_argument("training", nargs=argparse.REMAINDER, metavar="-- SCRIPT ...")


def run(options: argparse.Namespace) -> Shown:
    from paceline.cost import Rates, price
    from paceline.graph import save_graph
    from paceline.graph.files import KEPT
    from paceline.imagine.imagine import ScriptJob, imagine
    from paceline.imagine.imagined import ImagineError
    from paceline.imagine.imagined_graph import noted, on_cluster

    command, cluster = tuple(options.training), _cluster(options)
    constants = constants_of(options)
    if constants is not None and cluster is None:
        raise ImagineError("--constants is of forecasts of kernels: give --device or --cluster too")
    job = ScriptJob(
        command=command[1:] if command[:1] == ("--",) else command,
        world_size=options.world_size,
        steps=options.steps,
        settle=options.settle,
        ranks=_ranks(options.ranks, options.world_size),
        forward=options.forward,
        gpu=cluster is not None and _has_gpus(cluster),
        timeout_s=options.timeout,
    )
    if any(options.out.glob("rank-*.facts.jsonl")):
        raise ImagineError(f"{options.out} holds a recording; give another folder with -o")
    graph = imagine(job)
    if cluster is not None:
        graph = price(on_cluster(graph, cluster), cluster, Rates(constants=constants))
    if constants is not None:
        graph = noted(graph, f"forecast by constants of {constants.source}, {constants.date}")
    save_graph(graph, options.out / KEPT)
    data = {"run": str(options.out), "priced": cluster is not None, **totals(graph)}
    return Shown(data, lambda console: _render(data, console))


def totals(graph: "Graph") -> dict[str, Any]:
    """What one imagined step of the first rank holds."""
    import numpy as np

    from paceline.graph import COMMUNICATION, Collective, OpKind

    ops = graph.ops
    mine = (ops.rank == graph.ranks[0]) & (ops.step == ops.step.min())
    talks = mine & np.isin(ops.kind, COMMUNICATION)
    mine &= ops.kind != OpKind.HOST
    calls = {
        Collective(one).name.lower(): {
            "calls": int((chosen := talks & (ops.collective == one)).sum()),
            "bytes": int(ops.size_bytes[chosen].sum()),
        }
        for one in np.unique(ops.collective[talks]).tolist()
    }
    return {
        "world_size": graph.world_size,
        "ranks": list(graph.ranks),
        "ops": int(mine.sum()),
        "flops": int(ops.flops[mine].sum()),
        "touched_bytes": int(ops.size_bytes[mine & ~talks].sum()),
        "communication": calls,
        "notes": list(graph.meta["notes"]),
    }


def _cluster(options: argparse.Namespace) -> "Cluster | None":
    """What to price for; a device alone needs no links where nobody communicates."""
    from paceline.cluster import load, with_settings
    from paceline.cluster.files import device, from_document
    from paceline.imagine.imagined import ImagineError

    if options.cluster:
        cluster = with_settings(load(options.cluster), options.set)
        if options.device:
            chosen = device(options.device)
            hosts = tuple(replace(host, device=chosen) for host in cluster.hosts)
            cluster = replace(cluster, hosts=hosts)
        workers = options.world_size
        return cluster if cluster.workers == workers else cluster.with_workers(workers)
    if not options.device:
        return None
    if options.world_size > 1:
        raise ImagineError(
            f"--device says how long work takes, and not how {options.world_size} workers are "
            "linked: give --cluster too"
        )
    alone = {"count": 1, "device": options.device}
    return from_document({"hosts": alone, "link": "ethernet-1g"})


def _has_gpus(cluster: "Cluster") -> bool:
    from paceline.graph import DeviceKind

    return all(host.device.kind is DeviceKind.GPU for host in cluster.hosts)


def _ranks(text: str | None, world_size: int) -> tuple[int, ...]:
    from paceline.imagine.imagined import ImagineError

    if text is None:
        return ()
    if text == "all":
        return tuple(range(world_size))
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise ImagineError(f"--ranks {text!r} is no list of ranks, such as 0,3, nor all") from error


def _render(data: dict[str, Any], console: Any) -> None:
    console.print(
        f"a step of rank {data['ranks'][0]} of {data['world_size']}: {data['ops']:,} ops, "
        f"{data['flops'] / 1e9:,.2f} GFLOP, {data['touched_bytes'] / 1e6:,.1f} MB touched"
    )
    for name, row in data["communication"].items():
        console.print(f"  {name}: {row['calls']} calls, {row['bytes'] / 1e6:,.2f} MB")
    for note in data["notes"]:
        console.print(f"note: {note}", markup=False)
    following = "show" if data["priced"] else "predict"
    more = "" if data["priced"] else " --cluster c.yaml"
    console.print(f"next: paceline {following} {data['run']}{more}", markup=False)
