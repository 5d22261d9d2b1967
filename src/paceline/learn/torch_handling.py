"""One worker of `handling.py`: messages and sums, and the processor time of all its threads.

Worker 0 prints JSON: for each number of messages to others and each size the median over turns.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from paceline.learn.carrier import Parcel
from paceline.learn.message import Message, packed, unpacked
from paceline.learn.torch_carrier import Gloo

SIZES = (256, 16_384, 262_144)
SUMS = (4_096, 65_536, 524_288)
CACHES_BYTES = 8_000_000
FIRST = 3  # turns that warm up


def main(store: str, rank: int, workers: int, turns: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=workers)
    carrier, memory = Gloo(sums=True), np.ones(CACHES_BYTES // 8)
    turn = _Turns(turns, memory)
    sent = [_sent(carrier, turn, 0, 0)]
    sent += [_sent(carrier, turn, n, size) for n in _counts(workers) for size in SIZES]
    summed = [_summed(carrier, turn, size) for size in SUMS]
    if rank == 0:
        print(json.dumps({"sent": sent, "summed": summed}), flush=True)
    carrier.met()
    dist.destroy_process_group()


def _counts(workers: int) -> Sequence[int]:
    """How many others a worker sends to: one, and all."""
    return sorted({1, workers - 1})


class _Turns:
    """The same again and again, with what work leaves of the caches between."""

    def __init__(self, count: int, memory: "np.ndarray[Any, np.dtype[np.float64]]") -> None:
        self._count, self._memory = count, memory

    def __call__(self, act: Callable[[], object]) -> float:
        """Processor time of all threads, in ns; the median. Behind a barrier, so that nobody waits
        long for another."""
        took = []
        for _ in range(FIRST + self._count):
            dist.barrier()
            self._memory += 1.0
            began = time.process_time_ns()
            act()
            took.append(time.process_time_ns() - began)
        return statistics.median(took[FIRST:])


def _sent(carrier: Gloo, turn: _Turns, messages: int, size: int) -> dict[str, float]:
    """To so many others, and as many that come; without putting them into bytes and back."""
    others = [(carrier.rank + 1 + n) % carrier.workers for n in range(messages)]
    message = Message({"values": np.zeros(size, np.uint8)})
    parcels = [Parcel(carrier.rank, (other,), message) for other in others]
    whole = turn(lambda: carrier.send(parcels).wait())
    own = turn(lambda: [unpacked(packed(message)) for _ in others])
    return {"messages": messages, "size": size, "ns": max(1.0, whole - own)}


def _summed(carrier: Gloo, turn: _Turns, size: int) -> dict[str, float]:
    vector = np.zeros(size // 4, np.float32)
    return {"size": size, "ns": turn(lambda: carrier.summed([vector], len(vector)).mean())}


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]))
