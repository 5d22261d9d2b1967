"""One worker of `handling.py`: messages and sums, and the processor time of all its threads.

Worker 0 prints JSON: for each number of messages to others and each size the median over turns;
and what a step of a small network takes longer behind rests, in a crowd of other workers' steps.
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
from paceline.learn.samples import Samples
from paceline.learn.torch_carrier import Gloo
from paceline.learn.torch_workers import network

SIZES = (256, 16_384, 262_144)
SUMS = (4_096, 65_536, 524_288)
CACHES_BYTES = 8_000_000
FIRST = 3  # turns that warm up
MODEL, BATCH = "cnn-group-norm", 32
REST_S = 0.012


def main(store: str, rank: int, workers: int, turns: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=workers)
    carrier, memory = Gloo(sums=True), np.ones(CACHES_BYTES // 8)
    turn = _Turns(turns, memory)
    sent = [_sent(carrier, turn, 0, 0)]
    sent += [_sent(carrier, turn, n, size) for n in _counts(workers) for size in SIZES]
    summed = [_summed(carrier, turn, size) for size in SUMS]
    cold = _cold_ns(carrier, turns)
    if rank == 0:
        print(json.dumps({"sent": sent, "summed": summed, "cold": cold}), flush=True)
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


def _cold_ns(carrier: Gloo, turns: int) -> float:
    """Behind rests, all workers in turn and at once, against steps of worker 0 alone in a row."""
    step = _step()
    row = [step() for _ in range(FIRST + turns)][FIRST:] if carrier.rank == 0 else [0]
    carrier.met()
    behind = []
    for _ in range(FIRST + turns):
        time.sleep(REST_S)
        behind.append(step())
    return statistics.median(behind[FIRST:]) - statistics.median(row)


def _step() -> Callable[[], int]:
    """A step's processor time, in ns."""
    drawn = np.random.default_rng(0)
    inputs = drawn.normal(size=(BATCH, 1, 28, 28)).astype(np.float32)
    samples = Samples(inputs, np.arange(BATCH) % 10, np.arange(BATCH))
    learner = network(MODEL, samples, samples)
    weights, rows = learner.start(0), np.arange(BATCH)

    def run() -> int:
        began = time.thread_time_ns()
        learner.gradient(weights, rows)
        return time.thread_time_ns() - began

    return run


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]))
