"""How steady this machine is, and which figures can be trusted on it.

`observe` runs equal pieces of arithmetic back to back and times them; `steadiness` says how much
they vary at 1 ms, at 100 ms and at 10 s, and what that allows to be measured.
"""

import hashlib
import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Final

from paceline.machine.clocks import Moved, clocks_now, moved
from paceline.machine.pulse import Pulse, PulseTaker, typical_pulse
from paceline.machine.quota import quota_here
from paceline.machine.stolen import stolen_here
from paceline.machine.threads import ThreadTime, thread_clock

UNIT_NS: Final = 1_000_000
STEP_NS: Final = 100_000_000
BLOCK_NS: Final = 10_000_000_000
GAIN: Final = 0.03
SURE: Final = 2.8  # standard errors: 5 % false alarms, and 80 % of such gains seen
TURNS: Final = 60  # steps of each plan that are taken in turn
MANY_TURNS: Final = 300
LEAST_STEPS: Final = 5
LEAST_BLOCKS_NS: Final = round(1.8 * BLOCK_NS)  # two blocks, less what pulses took
_FEW: Final = 5  # windows of which quantiles say nothing
_BLOCK: Final = bytes(2047)


@dataclass(frozen=True)
class Observed:
    """Lengths of equal pieces of work, one after the other, and what else was counted meanwhile."""

    lengths_ns: tuple[int, ...]
    got: ThreadTime | None  # None where the kernel keeps no count
    stolen_ns: int | None
    throttled_ns: int
    clocks: Moved
    pulse: Pulse | None


@dataclass(frozen=True)
class Trust:
    """A kind of figure: what is asked of it, and below what this machine cannot tell."""

    figure: str
    asked: float
    floor: float

    @property
    def measurable(self) -> bool:
        """A floor of more than half of what is asked leaves nothing to decide."""
        return self.floor <= self.asked / 2


@dataclass(frozen=True)
class Steadiness:
    """Relative deviations at three lengths; shares are of the time that was observed."""

    seconds: float
    at_1ms: float
    at_100ms: float
    at_10s: float | None  # None: not watched for long enough
    waiting: float | None  # for a core; None: not counted here
    stolen: float | None
    throttled: float
    clocks: Moved
    pulse: Pulse | None
    steps_for_gain: int  # of each plan, in turn, to tell a gain of 3 %
    trust: tuple[Trust, ...]


def observe(seconds: float) -> Observed:
    """Keep one core busy for so long."""
    rounds, taker = _rounds(), PulseTaker()
    pulses: list[Pulse] = []
    counter = thread_clock(threading.get_native_id())
    got, stolen, throttled = counter and counter.read(), stolen_here(), _throttled_ns()
    clocks, lengths, end = clocks_now(), [], time.monotonic() + seconds
    while time.monotonic() < end:
        lengths.append(_length_ns(rounds))
        if pulse := taker.take():
            pulses.append(pulse)
    after, now = counter and counter.read(), stolen_here()
    if counter:
        counter.close()
    return Observed(
        tuple(lengths),
        after.since(got) if after and got else None,
        None if now is None or stolen is None else now - stolen,
        _throttled_ns() - throttled,
        moved(clocks, clocks_now()),
        typical_pulse(pulses),
    )


def steadiness(seen: Observed, cores: int = 1) -> Steadiness:
    """What was observed, judged."""
    whole = max(sum(seen.lengths_ns), 1)
    least, step = (deviation(windows(seen.lengths_ns, ns)) for ns in (UNIT_NS, STEP_NS))
    block = deviation(windows(seen.lengths_ns, BLOCK_NS)) if whole > LEAST_BLOCKS_NS else None
    return Steadiness(
        seconds=whole / 1e9,
        at_1ms=least,
        at_100ms=step,
        at_10s=block,
        waiting=None if seen.got is None else seen.got.delay_ns / whole,
        stolen=None if seen.stolen_ns is None else seen.stolen_ns / whole / cores,
        throttled=seen.throttled_ns / whole,
        clocks=seen.clocks,
        pulse=seen.pulse,
        steps_for_gain=steps_for(GAIN, step),
        trust=_trust(least, step, block),
    )


def _trust(least: float, step: float, block: float | None) -> tuple[Trust, ...]:
    found = (
        Trust("one kernel or message, one sample", 0.10, 2 * least),
        Trust("a gain of 3 %, 60 steps in turn", GAIN, _floor(step, TURNS)),
        Trust("overhead of 0.5 %, 300 steps in turn", 0.005, _floor(step, MANY_TURNS)),
    )
    later = () if block is None else (Trust("a prediction, measured later", 0.05, block),)
    return found + later


def windows(lengths_ns: Sequence[int], window_ns: int) -> list[float]:
    """Mean length of a piece in each stretch of so many pieces as usually fill the window, at
    most half of all."""
    usual = median(lengths_ns) if lengths_ns else 1.0
    count = max(1, min(round(window_ns / usual), len(lengths_ns) // 2))
    whole = len(lengths_ns) - len(lengths_ns) % count
    return [mean(lengths_ns[at : at + count]) for at in range(0, whole, count)]


def deviation(values: Sequence[float]) -> float:
    """Relative standard deviation, as the middle two thirds tell it; half the range of a few."""
    if len(values) < 2:
        return 0.0
    ordered, last = sorted(values), len(values) - 1
    low, high = ordered[round(0.16 * last)], ordered[round(0.84 * last)]
    if len(values) < _FEW:
        low, high = ordered[0], ordered[-1]
    return (high - low) / 2 / median(ordered)


def steps_for(gain: float, at_a_step: float) -> int:
    """Steps of each of two plans, taken in turn, after which a gain can be seen."""
    return max(LEAST_STEPS, math.ceil(2 * (SURE * at_a_step / gain) ** 2))


def _floor(at_a_step: float, steps: int) -> float:
    """Two standard errors of the difference of two means."""
    return 2 * at_a_step * math.sqrt(2 / steps)


def _length_ns(rounds: int) -> int:
    digest, begin = hashlib.sha256(), time.perf_counter_ns()
    for _ in range(rounds):
        digest.update(_BLOCK)
    return time.perf_counter_ns() - begin


def _rounds() -> int:
    """How many rounds take a millisecond when nothing interferes."""
    trial = 100
    return max(1, round(trial * UNIT_NS / min(_length_ns(trial) for _ in range(20))))


def _throttled_ns() -> int:
    found = quota_here()
    return found.throttled_ns if found else 0
