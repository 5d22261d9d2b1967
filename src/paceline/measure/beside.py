"""What all-reduces take of processors that are at work, by the work that is lost beside them.

As many workers as cores, each with work of its own, reduce a few bytes again and again, and then
many; in turn with as much time of work alone. What less of it was done, in time, is what the
all-reduces took: gloo's threads, the kernel's work on packets wherever it ran, and the caches that
they cost. Processor time by the clocks of processes leaves out the last two.

The workers run in labs of two rates, which the caller gives (`paceline.lab.said`).
"""

import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from paceline.cluster import Cluster, Device, Host, Link
from paceline.cluster.machine import FAST_BYTES_PER_S, SLOW_BYTES_PER_S
from paceline.machine import usable_cores
from paceline.measure.constant import Constant
from paceline.measure.in_lab import InLab, answer

TURNS = 10
FEW, FEW_CALLS = 8, 100  # bytes, and all-reduces in a turn
MANY = 2**20
SECONDS = 0.3  # of all-reduces of many bytes in a turn, about

Lost = Mapping[str, Sequence[tuple[float, float]]]
"""By size: seconds of an all-reduce and the share of work that is lost beside it, by turn."""


@dataclass(frozen=True)
class Beside:
    """`Machine`'s constants of the same names."""

    call_beside_ns: Constant
    fast_beside_ns_per_byte: Constant
    slow_beside_ns_per_byte: Constant


def beside(in_lab: InLab, cpu_ns_per_byte: float, *, prefix: Sequence[str] = ()) -> Beside:
    """Measured in labs of its own. A byte takes `cpu_ns_per_byte` where no work is beside it."""
    workers = max(2, usable_cores())
    hosts = tuple(Host(f"h{i}", Device("core")) for i in range(workers))

    def lost(bytes_per_s: float) -> Lost:
        count = max(2, round(SECONDS * bytes_per_s / MANY))
        asked = (f"{FEW}x{FEW_CALLS}", f"{MANY}x{count}")
        module = [sys.executable, "-m", "paceline.measure.torch_beside"]
        cluster = Cluster(hosts, Link.both_ways(bytes_per_s))
        said = in_lab(cluster, [*prefix, *module, str(TURNS), *asked])
        found: Lost = answer(said, "lost")["lost"]
        return found

    more = partial(_more, workers=workers, cpu_ns_per_byte=cpu_ns_per_byte)
    fast, slow = lost(FAST_BYTES_PER_S), lost(SLOW_BYTES_PER_S)
    return Beside(call_ns(fast), more(fast), more(slow))


def call_ns(lost: Lost) -> Constant:
    """Of each worker, for an all-reduce of next to nothing."""
    return _middle([1e9 * seconds * share for seconds, share in lost[str(FEW)]])


def byte_ns(lost: Lost, workers: int) -> list[float]:
    """Of each worker, for a byte that it sends, beside the call; by turn."""
    call, sent = call_ns(lost).value, 2 * (workers - 1) / workers * MANY
    return [(1e9 * seconds * share - call) / sent for seconds, share in lost[str(MANY)]]


def _more(lost: Lost, workers: int, cpu_ns_per_byte: float) -> Constant:
    return _middle([each - cpu_ns_per_byte for each in byte_ns(lost, workers)])


def _middle(found: Sequence[float]) -> Constant:
    """The median, and the middle half; none below zero."""
    low, middle, high = (max(0.0, each) for each in statistics.quantiles(found, n=4))
    return Constant(middle, low, high)
