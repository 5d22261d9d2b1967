"""One worker of `handling.py`: messages and sums, and the processor time of all its threads.

Worker 0 prints JSON: for each number of messages to others and each size the mean over turns; what
a step of a small network takes longer behind rests, in a crowd of other workers' steps; and how
long small messages take by the clock.
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

from paceline.graph import Collective
from paceline.launch.torch_parting import part
from paceline.learn.carrier import Parcel
from paceline.learn.message import Message, packed, unpacked
from paceline.learn.samples import Samples
from paceline.learn.torch_carrier import Gloo
from paceline.learn.torch_workers import network

SIZES = (256, 16_384, 262_144)
SUMS = (4_096, 65_536, 524_288)
FIRST = 3  # turns that warm up
MODEL, BATCH = "cnn-group-norm", 32
REST_S = 0.012
WAITED = 256  # numbers of a sum
BLOCKS = 4  # of steps in a row and behind rests, in turn, so that a drift meets both


def main(store: str, rank: int, workers: int, turns: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=workers)
    carrier, step = Gloo(sums=True), _step()
    turn = _Turns(turns, step)
    sent = [_sent(carrier, turn, 0, 0)]
    sent += [_sent(carrier, turn, n, size) for n in _counts(workers) for size in SIZES]
    summed = [_summed(carrier, turn, size) for size in SUMS]
    cold = _cold_ns(carrier, step, turns)
    waits = _waits(carrier, turn)
    if rank == 0:
        told = {"sent": sent, "summed": summed, "cold": cold, "waits": waits}
        print(json.dumps(told), flush=True)
    carrier.met()
    part()


def _counts(workers: int) -> Sequence[int]:
    """How many others a worker sends to: one, and all."""
    return sorted({1, workers - 1})


class _Turns:
    """The same again and again, each time behind a rest and a step of training."""

    def __init__(self, count: int, step: Callable[[], int]) -> None:
        self._count, self._step = count, step

    def __call__(self, act: Callable[[], object]) -> float:
        """Processor time of all threads, in ns; the mean, for what is dear is seldom."""
        took = []
        for _ in range(FIRST + self._count):
            dist.barrier()
            time.sleep(REST_S)
            self._step()
            began = time.process_time_ns()
            act()
            took.append(time.process_time_ns() - began)
        return statistics.mean(took[FIRST:])

    def waited(self, act: Callable[[], object]) -> dict[str, float]:
        """From when all workers are ready: time by the clock, and of all threads' processors; in
        ns, the means."""
        walls, took = [], []
        for _ in range(FIRST + self._count):
            self._step()
            dist.barrier()
            began, at = time.perf_counter_ns(), time.process_time_ns()
            act()
            took.append(time.process_time_ns() - at)
            walls.append(time.perf_counter_ns() - began)
        return {"wall_ns": statistics.mean(walls[FIRST:]), "cpu_ns": statistics.mean(took[FIRST:])}


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


def _waits(carrier: Gloo, turn: _Turns) -> list[dict[str, Any]]:
    """Of a ring that tells sizes, and of one that adds up little."""
    vector = np.zeros(WAITED, np.float32)
    told = turn.waited(lambda: carrier.send([]).wait())
    summed = turn.waited(lambda: carrier.summed([vector], len(vector)).mean())
    return [
        {"collective": Collective.ALL_GATHER.name, "size_bytes": 8 * carrier.workers, **told},
        {"collective": Collective.ALL_REDUCE.name, "size_bytes": 4 * len(vector), **summed},
    ]


def _cold_ns(carrier: Gloo, step: Callable[[], int], turns: int) -> float:
    """Behind rests, of all workers at once, against steps of worker 0 alone in a row."""
    row, behind = list[int](), list[int]()
    for _ in range(BLOCKS):
        count = FIRST + turns // BLOCKS
        row += [step() for _ in range(count)][FIRST:] if carrier.rank == 0 else []
        carrier.met()
        behind += [_rested(step) for _ in range(count)][FIRST:]
    return statistics.median(behind) - statistics.median(row or behind)


def _rested(step: Callable[[], int]) -> int:
    time.sleep(REST_S)
    return step()


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
