"""What the transport costs this machine's processors: sums of so many workers that cores limit it.

As `measure.sharing` does of TCP: twice as many workers as cores, links of 1 Gbit/s, and processor
time over the bytes that a worker sends. Where the links are the limit, that is the most it can be.
The workers run in a lab, which the caller gives.
"""

import json
import statistics
import sys
import time

import torch
import torch.distributed as dist

from paceline.cluster import Cluster, Device, Host, Link
from paceline.launch.torch_parting import part
from paceline.machine import usable_cores
from paceline.measure.constant import Constant
from paceline.measure.in_lab import InLab, answer
from paceline.wire.settings import Tuning
from paceline.wire.torch_carrier import Carriage, carried

BYTES_PER_S = 125e6
SIZE_BYTES = 12 * 1024 * 1024
LAYERS = 12
ROUNDS = 8


def datagram_cost(in_lab: InLab) -> Constant:
    """Processor time of the whole machine for a byte that a worker sends, in ns."""
    cores = usable_cores()
    workers = 2 * cores
    hosts = tuple(Host(f"h{i}", Device("core")) for i in range(workers))
    module = "paceline.wire.torch_costs"
    said = in_lab(Cluster(hosts, Link.both_ways(BYTES_PER_S)), [sys.executable, "-m", module])
    sent = 2 * (workers - 1) / workers * SIZE_BYTES
    costs = [1e9 * s * cores / (workers * sent) for s in answer(said, "carried")["carried"]]
    return Constant(min(costs), 0.0, statistics.median(costs))


def _as_worker() -> None:
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    values = torch.ones(SIZE_BYTES // 4)
    bucket = _Bucket(list(values.chunk(LAYERS)))
    how = Carriage(tuning=Tuning.of_link(8 * BYTES_PER_S))
    found = []
    with carried(dist.group.WORLD, how) as start:
        for _ in range(ROUNDS):
            dist.barrier()
            began = time.perf_counter()
            start(values, bucket).future.wait()
            found.append(time.perf_counter() - began)
    if dist.get_rank() == 0:
        print(json.dumps({"carried": found[1:]}), flush=True)  # the first warms up
    dist.barrier()
    part()


class _Bucket:
    """The only one of a step, as DDP's hooks are given it."""

    def __init__(self, layers: list[torch.Tensor]) -> None:
        self._layers = layers

    def index(self) -> int:
        return 0

    def is_last(self) -> bool:
        return True

    def parameters(self) -> list[torch.Tensor]:
        return self._layers


if __name__ == "__main__":
    _as_worker()
