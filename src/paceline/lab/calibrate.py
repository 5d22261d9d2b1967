"""What TCP costs this machine's processors: an all-reduce of so many workers that cores limit it.

Twice as many workers as cores reduce a large tensor over links of 1 Gbit/s. Where that takes longer
than the links alone need, all cores are busy, and processor time over bytes is the cost of a byte.
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
SLACK = 1.03  # as much longer than the links alone before the cores are held to be the limit

_SCRIPT = """
import sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
size, rounds = int(sys.argv[1]), int(sys.argv[2])
tensor, took = torch.ones(size // 4), []
for _ in range(rounds):
    dist.barrier()
    began = time.perf_counter()
    dist.all_reduce(tensor)
    took.append(time.perf_counter() - began)
print("least", min(took[1:]))
dist.barrier()
dist.destroy_process_group()
"""


@dataclass(frozen=True)
class TcpCost:
    """Processor time of the machine for a byte that a worker sends, and what it was found by."""

    cpu_ns_per_byte: float
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
    command = [*prefix, sys.executable, "-c", _SCRIPT, str(SIZE_BYTES), str(ROUNDS)]
    with Lab(Cluster(hosts, Link.both_ways(BYTES_PER_S))) as lab:
        said = lab.run(command, timeout_s=timeout_s).text(0)
    seconds = [line.split()[1] for line in said.splitlines() if line.startswith("least ")]
    if not seconds:
        raise LabError(f"the calibration ended without a figure; it said: {said.strip()[-300:]}")
    return tcp_cost(float(seconds[0]), workers, cores, payload_share)


def tcp_cost(all_reduce_s: float, workers: int, cores: int, payload_share: float) -> TcpCost:
    """The cost of a byte from the time of one all-reduce round a ring of workers."""
    sent = 2 * (workers - 1) / workers * SIZE_BYTES
    return TcpCost(
        cpu_ns_per_byte=all_reduce_s * cores / (workers * sent) * 1e9,
        workers=workers,
        cores=cores,
        all_reduce_s=all_reduce_s,
        links_alone_s=sent / (BYTES_PER_S * payload_share),
    )
