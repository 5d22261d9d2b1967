"""What TCP costs this machine's processors: an all-reduce of so many workers that cores limit it.

Twice as many workers as cores reduce a large tensor over links of 1 Gbit/s. Where that takes longer
than the links alone need, all cores are busy, and processor time over bytes is the cost of a byte.

They then reduce a few bytes, once with nothing else to do and once while all of them compute: what
that takes longer, over the messages in turn and the threads at work on each core, is how late a
message comes for each of them. It is near a slice of the system's scheduler. Last, the first two,
three, ... of them reduce a few bytes: the line through these times over their messages is the time
of a call and of each message. What all-reduces of a page take longer is what stalls each message.
While the others wait the first times passes after rests (`resting`) and products whose weights are
DTensors, and the first two blocks that FSDP2 cuts (`hosting`); and the first how much longer its
work takes beside everyone's than alone, and how much later than by fair shares it ends where all
begin at once.
Other labs tell what all-reduces take of processors that are at work (`beside`).

The workers run in a lab, which the caller gives (`paceline.lab.said`).
"""

import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

import numpy as np

from paceline.cluster import Cluster, Device, Host, Link
from paceline.cluster.tcp import tcp_share
from paceline.cost.errors import CostError
from paceline.cost.fit import fit_line
from paceline.machine import usable_cores
from paceline.measure.beside import beside
from paceline.measure.constant import Constant
from paceline.measure.hosting import block_costs, dtensor_costs
from paceline.measure.in_lab import InLab, answer
from paceline.measure.resting import rests_cost
from paceline.measure.shared_cores import SLACK, SharedCores
from paceline.measure.usual import usual_mean

BYTES_PER_S = 125e6
SIZE_BYTES = 24 * 1024 * 1024
ROUNDS = 8
SMALL_ROUNDS = 60
Z90 = 1.645  # standard errors to either side of a mean that hold nine of ten


def shared_cores(in_lab: InLab, *, prefix: Sequence[str] = ()) -> SharedCores:
    """Measure it in a lab of its own. `prefix` goes before the workers' command, such as
    `nice -n -20`."""
    cores = usable_cores()
    hosts = tuple(Host(f"h{i}", Device("core")) for i in range(2 * cores))
    cluster = Cluster(hosts, Link.both_ways(BYTES_PER_S))
    numbers = map(str, (SIZE_BYTES, ROUNDS, SMALL_ROUNDS))
    module = "paceline.measure.torch_sharing"
    said = in_lab(cluster, [*prefix, sys.executable, "-m", module, *numbers])
    found = costs(answer(said, "large"), cores, tcp_share(cluster.transport.gso_max_segs))
    more = beside(in_lab, found.cpu_ns_per_byte.value, prefix=prefix)
    return replace(found, **vars(more))


def costs(found: Mapping[str, Any], cores: int, payload_share: float) -> SharedCores:
    """The machine's constants from what the workers measured, in seconds: `large` all-reduces,
    small ones `idle` and `busy`, small ones by how many workers took part (`members`), and those of
    a page by the same (`stalls`).
    `payload_share` of a link's rate reaches the payload."""
    workers = 2 * cores
    sent = 2 * (workers - 1) / workers * SIZE_BYTES
    cpu_ns = cores / (workers * sent) * 1e9  # of a byte, for each second
    large_s, links_alone_s = found["large"], sent / (BYTES_PER_S * payload_share)
    call, message = _of_messages(found["members"])
    return SharedCores(
        cores=cores,
        workers=workers,
        all_reduce_s=min(large_s),
        links_alone_s=links_alone_s,
        cpu_ns_per_byte=_of_a_byte([cpu_ns * s for s in large_s], cpu_ns * SLACK * links_alone_s),
        turn_ns=_turn(found["idle"], found["busy"], workers, cores),
        call_ns=call,
        message_ns=message,
        stall_ns=_stalled(found["stalls"], call),
        **vars(rests_cost(found["rests"])),
        **vars(dtensor_costs(found["dtensors"])),
        **vars(block_costs(found["blocks"])),
        crowded_product=_longer(found["crowding"]["product"]),
        crowded_pass=_longer(found["crowding"]["pass"]),
        together_ns=_later(found["together"], workers / cores),
    )


def _of_a_byte(costs_ns: Sequence[float], links_ns: float) -> Constant:
    """The least, for others on the machine can only add to it, up to the middle. What is not above
    `links_ns` the links may have set: the cores then need at most this."""
    least = min(costs_ns)
    return Constant(least, least if least > links_ns else 0.0, statistics.median(costs_ns))


def _turn(idle_s: Sequence[float], busy_s: Sequence[float], workers: int, cores: int) -> Constant:
    """How late a message comes for each thread at work on its core."""
    each_ns = 1e9 / (2 * (workers - 1)) / (workers / cores)
    error_s = sum(float(np.var(times)) / len(times) for times in (idle_s, busy_s)) ** 0.5
    later_s = statistics.mean(busy_s) - statistics.mean(idle_s)
    return Constant.around(each_ns * later_s, each_ns * Z90 * error_s)


def _later(found: Mapping[str, Sequence[float]], crowd: float) -> Constant:
    """Behind fair shares: the median of the means by work, and the least and most of them."""
    mean_s = {float(ms): usual_mean(times) for ms, times in found.items()}
    alone_s = mean_s.pop(0.0)
    later = sorted(1e9 * max(0.0, s - alone_s - crowd * ms / 1e3) for ms, s in mean_s.items())
    return Constant(statistics.median(later), later[0], later[-1])


def _longer(found: Mapping[str, Sequence[float]]) -> Constant:
    """How many times as long work takes beside others', turn by turn: the median, and the middle
    half."""
    times = [b / a for a, b in zip(found["alone"], found["together"], strict=True)]
    low, middle, high = (max(1.0, each) for each in statistics.quantiles(times, n=4))
    return Constant(middle, low, high)


def _of_messages(members: Mapping[str, Sequence[float]]) -> tuple[Constant | None, Constant | None]:
    """Time of a call, and of each of the 4 (n - 1) messages in turn of gloo's ring of n."""
    points = [
        (messages, 1e9 * seconds)
        for count, times in members.items()
        for messages, seconds in zip(repeat(4.0 * (int(count) - 1)), times)
    ]
    try:
        line = fit_line(*zip(*points))
    except CostError:  # fewer than three numbers of workers, or times that do not grow with them
        return None, None
    each_ns = 1e9 / line.bytes_per_s
    return (
        Constant.around(line.latency_ns, line.latency_half_ns),
        Constant.around(each_ns, each_ns * line.bytes_per_s_half / line.bytes_per_s),
    )


def _stalled(stalls: Mapping[str, Sequence[float]], call: Constant | None) -> Constant | None:
    """Time of each message in turn that holds bytes: the median by how many workers took part."""
    if call is None:
        return None
    each_ns = sorted(
        max(0.0, 1e9 * statistics.median(times) - call.value) / (4 * (int(count) - 1))
        for count, times in stalls.items()
    )
    return Constant(statistics.median(each_ns), each_ns[0], each_ns[-1])
