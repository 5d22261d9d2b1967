"""16,384 GPUs from a description to a step time, and how fast flows are simulated.

seconds, peak_mb: a transformer of 96 layers (hidden 12,288), tensor 8, pipeline 16, data 128, from
its dimensions to a step time on 2,048 hosts of eight H100: describe, price, replay. One tensor- and
data-parallel rank stands for each pipeline stage, which is exact here because all of them do the
same work; their collectives are priced with all true members and with the groups beside them.

flow_events_per_s: begins and ends of messages a second in the native simulator, for ring
all-reduces of 64 workers on a star, whose messages begin and end together. `flow_workloads` has
harder cases beside: all pairs at once, exchanges over oversubscribed spines, and messages that come
at random, about eighty of them in one component.

Random messages stay far below a million events a second. There an event changes the rates of 11
flows on average (median 6); settling begins at the rate at which the flow joins or leaves, and so
looks at 29 of the 80 instead of at all, which is 2.1 times as fast (68,000 and 144,000 events a
second of CPU, minutes apart on one machine). An algorithm that touched none but the 11, at some
15 ns for each of their four links and one entry in the queue each (an estimate), would end near a
million. It has no fixed order in which it subtracts, so its rates would differ from the
plain-Python definition in the last bit; equality bit for bit was preferred.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import measure  # noqa: E402
from paceline.cluster import Cluster, Network, parse  # noqa: E402
from paceline.cost.collectives import ALGORITHMS, Call, Library  # noqa: E402
from paceline.cost.flows import Flow, FlowTable, Messages, messages_of, simulate  # noqa: E402
from paceline.graph import Collective  # noqa: E402
from paceline.imagine.transformer import Degrees, Training, Transformer, describe  # noqa: E402
from paceline.replay import replay  # noqa: E402

CLUSTER = """
hosts: {count: 2048, devices: 8, nics: 8, device: h100, fabric: nvlink-4}
link: infiniband-ndr
topology: {kind: rail}
transport: {efficiency: 0.9, fabric_efficiency: 0.75}
"""


def main() -> None:
    options = measure.parser(__doc__ or "").parse_args()
    rounds = 3 if options.quick else 9
    times = [described() for _ in range(rounds)]
    seconds = measure.spread([t.seconds for t in times])
    peak = measure.peak_mb()
    workloads = {name: rate(make(), rounds) for name, make in WORKLOADS.items()}
    figures: dict[str, Any] = {
        "seconds": round(seconds["median"], 3),
        "seconds_spread": seconds,
        "peak_mb": round(peak, 1),
        "ops": times[0].ops,
        "gpus": 16384,
        "step_s": round(times[0].step_ns / 1e9, 4),
        "flow_events_per_s": round(workloads["rings on a star"]["events_per_s"]),
        "flow_workloads": workloads,
    }
    measure.report("speed/scale", figures, options)


@dataclass(frozen=True)
class Timed:
    """One run from the description to the step time."""

    seconds: float
    ops: int
    step_ns: int


def described() -> Timed:
    begin = time.perf_counter()
    cluster = parse(CLUSTER)
    model = Transformer(layers=96, hidden=12288, heads=96, seq=2048)
    job = describe(model, Degrees(data=128, tensor=8, pipeline=16), Training(2048))
    step = replay(job, cluster).step_ns
    return Timed(time.perf_counter() - begin, len(job.graph), step)


def rate(made: Messages, rounds: int) -> dict[str, float]:
    """Events a second over some runs."""
    _ = made.table.native
    samples = []
    for _ in range(rounds):
        begin = time.perf_counter()
        course = simulate(made)
        samples.append(course.events / (time.perf_counter() - begin))
    spread = measure.spread(samples)
    return {
        "events": course.events,
        "messages": len(made.table),
        "events_per_s": spread["median"],
        "events_per_s_p10": spread["p10"],
        "events_per_s_p90": spread["p90"],
    }


def rings_on_a_star() -> Messages:
    cluster = parse("{hosts: 64, link: ethernet-100g}")
    return collective(cluster, "gloo", Collective.ALL_REDUCE, 2**30)


def all_pairs() -> Messages:
    cluster = parse("{hosts: 64, link: ethernet-100g}")
    return collective(cluster, "gloo", Collective.ALL_TO_ALL, 2**30)


def oversubscribed() -> Messages:
    cluster = parse(
        "{hosts: 64, link: ethernet-100g, "
        "topology: {kind: leaf-spine, hosts_per_leaf: 8, spines: 2, oversubscription: 4}}"
    )
    return collective(cluster, "halving-doubling", Collective.ALL_REDUCE, 2**30)


def collective(cluster: Cluster, name: str, how: Collective, size_bytes: int) -> Messages:
    n = cluster.workers
    rounds = ALGORITHMS[name].rounds(Call(how, size_bytes, tuple(range(n))))
    return messages_of(rounds, Network(cluster), range(n), Library("bare", message_ns=1000))


def at_random() -> Messages:
    """Independent messages between random pairs: about eighty are under way at a time."""
    cluster = parse(
        "{hosts: 64, link: ethernet-100g, "
        "topology: {kind: leaf-spine, hosts_per_leaf: 8, spines: 2, oversubscription: 4}}"
    )
    network, draw, count = Network(cluster), np.random.default_rng(0), 20_000
    pairs = [draw.choice(cluster.workers, 2, replace=False).tolist() for _ in range(count)]
    sizes = draw.exponential(1e6, count)
    flows = [
        Flow(size, dict.fromkeys(network.path(a, b), 1.0)) for (a, b), size in zip(pairs, sizes)
    ]
    none = np.zeros(count + 1, np.int64)
    release = np.cumsum(draw.exponential(6_000, count)).astype(np.int64)
    table = FlowTable.of(flows, network.bytes_per_s)
    return Messages(table, none, np.zeros(0, np.int32), release)


WORKLOADS: dict[str, Callable[[], Messages]] = {
    "rings on a star": rings_on_a_star,
    "all pairs at once": all_pairs,
    "halving-doubling over 4:1 spines": oversubscribed,
    "random messages over 4:1 spines": at_random,
}


if __name__ == "__main__":
    main()
