"""How fast clients train beside one another, by the clock: what DLion deals batches by.

Measured on all workers at once before training, so that quotas and neighbours count. Clients of one
worker share its speed.
"""

import time
from collections.abc import Callable, Mapping

import numpy as np

from paceline.learn.algorithm import Setting
from paceline.learn.carrier import Carrier, Parcel
from paceline.learn.message import Message

LEAST_S = 2.0
"""That a worker is measured: many periods of a quota."""
_WARM = 2  # steps before
_LEAST = 0.01  # of the fastest one's speed


def measured_speeds(
    at: Setting, batch: int, carrier: Carrier, clock: Callable[[], float] = time.perf_counter
) -> tuple[float, ...]:
    """Of each client, as a share of the fastest one's. All workers find the same."""
    carrier.send([]).wait()  # all begin at once
    told = Message(numbers={"rate": _rate(at, batch, clock)})
    came = carrier.send([Parcel(carrier.rank, tuple(range(at.clients)), told)]).wait()
    return shared({each.source: each.message.numbers["rate"] for each in came}, carrier, at.clients)


def shared(rates: Mapping[int, float], carrier: Carrier, clients: int) -> tuple[float, ...]:
    """From the speed of each worker to that of its clients."""
    workers = [carrier.of(client) for client in range(clients)]
    each = [rates[worker] / workers.count(worker) for worker in workers]
    return tuple(max(_LEAST, round(rate / max(each), 2)) for rate in each)


def _rate(at: Setting, batch: int, clock: Callable[[], float]) -> float:
    """Samples a second of this worker."""
    weights, rows = at.learner.start(at.seed), np.arange(min(batch, *at.sizes))
    for _ in range(_WARM):
        at.learner.gradient(weights, rows)
    began, seen, took = clock(), 0, 0.0
    while not seen or took < LEAST_S:
        at.learner.gradient(weights, rows)
        seen, took = seen + len(rows), clock() - began
    return seen / took
