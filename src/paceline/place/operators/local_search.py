"""Local search: single classes move while the loads get better; then a kick, and again.

Loads are compared by their 8th powers summed, which follows the largest load but still sees a
gain on the second largest. Anytime: the best valid assignment so far is always at hand.
"""

import random
import time
from collections.abc import Sequence

from paceline.place.operators.classes import Classes
from paceline.place.operators.loads import Loads

POWER = 8


def improve(
    classes: Classes, start: Sequence[int], seconds: float, *, seed: int = 0, kicks: int = 200
) -> list[int]:
    """The best assignment found from a valid `start`."""
    rng, deadline = random.Random(seed), time.perf_counter() + seconds
    loads = Loads(classes, start)
    best, best_value = list(start), max(loads.load)
    for turn in range(kicks + 1):
        if turn:
            loads = Loads(classes, best)
            _kick(loads, rng)
        _descend(loads, deadline)
        if max(loads.load) < best_value * (1 - 1e-12):
            best, best_value = list(loads.at), max(loads.load)
        if time.perf_counter() > deadline:
            break
    return best


def _descend(loads: Loads, deadline: float) -> None:
    """Take every move that helps until none does."""
    scale = max(loads.load) or 1.0
    moved = True
    while moved and time.perf_counter() < deadline:
        moved = False
        for c in range(len(loads.at)):
            moved |= _best_move(loads, c, scale)
            if time.perf_counter() > deadline:
                return


def _best_move(loads: Loads, c: int, scale: float) -> bool:
    home, here = loads.at[c], _score(loads, scale)
    best, best_score = home, here - 1e-12
    for device in range(loads.devices):
        if device == home or not loads.may_hold(c, device):
            continue
        loads.move(c, device)
        score = _score(loads, scale)
        if score < best_score:
            best, best_score = device, score
        loads.move(c, home)
    if best != home:
        loads.move(c, best)
    return best != home


def _score(loads: Loads, scale: float) -> float:
    return sum((load / scale) ** POWER for load in loads.load)


def _kick(loads: Loads, rng: random.Random) -> None:
    """Move a handful of random classes off the busiest device, or anywhere."""
    busiest = max(range(loads.devices), key=loads.load.__getitem__)
    there = [c for c, device in enumerate(loads.at) if device == busiest]
    for _ in range(rng.randint(2, 6)):
        c = rng.choice(there) if there and rng.random() < 0.5 else rng.randrange(len(loads.at))
        device = rng.randrange(loads.devices)
        if loads.may_hold(c, device):
            loads.move(c, device)
