"""A noisy neighbour: bursts on one core, a memory hog, or both, from a seed.

    python benchmarks/noise_maker.py --kind both --seed 3 --seconds 60

Each burst keeps one core busy for 10 ms to 10 s, and a rest of at least the same length follows:
the core is busy for 0 to 50 % of the time. The hog copies 64 MB to and fro. The same seed makes the
same noise; `plan` says which, `beside` makes it around a block.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile
from math import exp, log

SHORTEST_S, LONGEST_S = 0.01, 10.0
HOG_BYTES = 64 << 20
PIECE_BYTES = 1 << 20


class Kind(Enum):
    """What the neighbour does while it is busy."""

    BURSTS = "bursts"
    MEMORY = "memory"
    BOTH = "both"


@dataclass(frozen=True)
class Noise:
    """A neighbour, whole: the same noise makes the same bursts."""

    kind: Kind
    seed: int
    core: int = 0
    memory_bytes: int = HOG_BYTES


@dataclass(frozen=True)
class Burst:
    """Busy from `begin_s` on, for `busy_s`."""

    begin_s: float
    busy_s: float


def plan(seed: int) -> Iterator[Burst]:
    """Rests and bursts without end; lengths are evenly spread on a logarithmic scale."""
    draw, at = random.Random(seed), 0.0
    while True:
        busy = exp(draw.uniform(log(SHORTEST_S), log(LONGEST_S)))
        at += exp(draw.uniform(log(busy), log(LONGEST_S)))
        yield Burst(at, busy)
        at += busy


def plan_until(seed: int, seconds: float) -> list[Burst]:
    """The bursts that begin in so many seconds."""
    return list(takewhile(lambda burst: burst.begin_s < seconds, plan(seed)))


@contextmanager
def beside(noise: Noise) -> Iterator[subprocess.Popen[bytes]]:
    """Make this noise while the block runs; it ends with the block, or with this process, however
    that ends."""
    command = [sys.executable, __file__, "--kind", noise.kind.value, "--seed", str(noise.seed)]
    command += ["--core", str(noise.core), "--memory-bytes", str(noise.memory_bytes)]
    maker = subprocess.Popen([*command, "--until-parted"], stdin=subprocess.PIPE)
    try:
        yield maker
    finally:
        maker.send_signal(signal.SIGTERM)
        maker.wait()
        assert maker.stdin is not None
        maker.stdin.close()


def end_when_parted() -> None:
    """Once nobody holds the other end of what this process reads, it ends."""
    sys.stdin.buffer.read()
    os._exit(0)


def make(noise: Noise, seconds: float) -> None:
    """Follow the plan from now on, on one core."""
    if noise.core in os.sched_getaffinity(0):
        os.sched_setaffinity(0, {noise.core})
    work, begin = _work(noise), time.monotonic()
    for burst in plan(noise.seed):
        if burst.begin_s >= seconds:
            break
        time.sleep(max(0.0, begin + burst.begin_s - time.monotonic()))
        end = begin + min(burst.begin_s + burst.busy_s, seconds)
        while time.monotonic() < end:
            work()


def _work(noise: Noise) -> Callable[[], object]:
    """A piece of work of well under the shortest burst."""
    if noise.kind is Kind.BURSTS:
        return _count
    hog = Hog(noise.memory_bytes)
    return hog.copy if noise.kind is Kind.MEMORY else lambda: (hog.copy(), _count())


def _count() -> int:
    return sum(range(20_000))


class Hog:
    """Memory that is copied to and fro, a piece at a time."""

    def __init__(self, size: int) -> None:
        self._from, self._to = bytearray(size), bytearray(size)
        self._piece, self._at = min(PIECE_BYTES, size), 0

    def copy(self) -> None:
        piece = slice(self._at, self._at + self._piece)
        self._to[piece] = self._from[piece]
        self._at = (self._at + self._piece) % (len(self._from) - self._piece + 1)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=[kind.value for kind in Kind], default=Kind.BURSTS.value)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--memory-bytes", type=int, default=HOG_BYTES)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="until ended")
    parser.add_argument("--until-parted", action="store_true", help="until its input closes")
    options = parser.parse_args(arguments)
    if options.until_parted:
        threading.Thread(target=end_when_parted, daemon=True).start()
    noise = Noise(Kind(options.kind), options.seed, options.core, options.memory_bytes)
    make(noise, options.seconds)


if __name__ == "__main__":
    main()
