"""What TCP costs this machine's processors: an all-reduce of so many workers that cores limit it.

Twice as many workers as cores reduce a large tensor over links of 1 Gbit/s. Where that takes longer
than the links alone need, all cores are busy, and processor time over bytes is the cost of a byte.

They then reduce a few bytes, once with nothing else to do and once while all of them compute: what
that takes longer, over the messages in turn and the threads at work on each core, is how late a
message comes for each of them. It is near a slice of the system's scheduler.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.cluster import Cluster, Device, Host, Link
from paceline.lab.errors import LabError
from paceline.lab.lab import Lab

BYTES_PER_S = 125e6
SIZE_BYTES = 24 * 1024 * 1024
ROUNDS = 8
SMALL_ROUNDS = 60
SLACK = 1.03  # as much longer than the links alone before the cores are held to be the limit

_SCRIPT = """
import sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
size, rounds, small_rounds = map(int, sys.argv[1:])
tensor, took = torch.ones(size // 4), []
for _ in range(rounds):
    dist.barrier()
    began = time.perf_counter()
    dist.all_reduce(tensor)
    took.append(time.perf_counter() - began)
print("least", min(took[1:]))
few, matrix = torch.ones(2), torch.ones(128, 128)
issued, ended = [], []
for turn in range(2 * small_rounds):
    dist.barrier()
    issued.append(time.perf_counter())
    work = dist.all_reduce(few, async_op=True)
    while turn % 2 and not work.is_completed():
        matrix @ matrix  # a twentieth of a millisecond
    work.wait()
    ended.append(time.perf_counter())
last = torch.tensor(issued, dtype=torch.float64)
dist.all_reduce(last, dist.ReduceOp.MAX)
took = torch.tensor(ended, dtype=torch.float64) - last  # one clock: all workers are on this machine
print("small", took[0::2].mean().item(), took[1::2].mean().item())
dist.barrier()
dist.destroy_process_group()
"""


@dataclass(frozen=True)
class TcpCost:
    """Processor time of the machine for a byte that a worker sends, how late a message comes for
    each thread at work on its core, and what both were found by."""

    cpu_ns_per_byte: float
    turn_ns: float
    workers: int
    cores: int
    all_reduce_s: float  # the fastest of some: others on the machine can only lengthen it
    links_alone_s: float

    @property
    def limited_by_cores(self) -> bool:
        """Else the links were the limit, and the cost is at most this."""
        return self.all_reduce_s > SLACK * self.links_alone_s


def calibrate(
    payload_share: float, *, prefix: Sequence[str] = (), timeout_s: float = 120.0
) -> TcpCost:
    """Measure it in a lab of its own. `payload_share` of a link's rate reaches the payload;
    `prefix` goes before the workers' command, such as `nice -n -20`."""
    cores = len(os.sched_getaffinity(0))
    workers = 2 * cores
    hosts = tuple(Host(f"h{i}", Device("core")) for i in range(workers))
    command = [
        *prefix,
        sys.executable,
        "-c",
        _SCRIPT,
        *map(str, (SIZE_BYTES, ROUNDS, SMALL_ROUNDS)),
    ]
    with Lab(Cluster(hosts, Link.both_ways(BYTES_PER_S))) as lab:
        said = lab.run(command, timeout_s=timeout_s).text(0)
    told = dict(line.split(maxsplit=1) for line in said.splitlines() if " " in line)
    if "least" not in told or "small" not in told:
        raise LabError(f"the calibration ended without a figure; it said: {said.strip()[-300:]}")
    idle_s, busy_s = map(float, told["small"].split())
    turn_ns = max(0.0, busy_s - idle_s) / (2 * (workers - 1)) / (workers / cores) * 1e9
    return tcp_cost(float(told["least"]), workers, cores, payload_share, turn_ns)


def tcp_cost(
    all_reduce_s: float, workers: int, cores: int, payload_share: float, turn_ns: float = 0.0
) -> TcpCost:
    """The cost of a byte from the time of one all-reduce round a ring of workers."""
    sent = 2 * (workers - 1) / workers * SIZE_BYTES
    return TcpCost(
        cpu_ns_per_byte=all_reduce_s * cores / (workers * sent) * 1e9,
        turn_ns=turn_ns,
        workers=workers,
        cores=cores,
        all_reduce_s=all_reduce_s,
        links_alone_s=sent / (BYTES_PER_S * payload_share),
    )
