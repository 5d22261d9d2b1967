"""`handling`: what messages take of a worker's processor, measured between processes here.

Two workers and then four carry messages over loopback, each time behind a rest and a step of a
small network, as the workers of a run do. Then all of them take such steps behind rests, which cost
processor time against the same steps of one worker in a row. What a lab adds (shaped queues, its
switch) is not in it.
"""

import statistics
from typing import Any

from paceline.launch import LaunchError, first_of
from paceline.learn.errors import LearnError
from paceline.measure.handling import Handled, Handling, fitted, sending, summing

GROUPS = (2, 4)


def handling(turns: int = 24) -> Handling:
    """Fitted to the medians of so many turns."""
    found = {workers: _measured(workers, turns) for workers in GROUPS}
    handled = [each for workers, told in found.items() for each in _handled(workers, told)]
    return fitted(handled, statistics.mean(max(0.0, told["cold"]) for told in found.values()))


def _measured(workers: int, turns: int) -> Any:
    """What the first of so many workers found."""
    try:
        return first_of(workers, "paceline.learn.torch_handling", turns)
    except LaunchError as problem:
        raise LearnError(f"messages were not carried: {problem}") from None


def _handled(workers: int, found: Any) -> list[Handled]:
    sent = [sending(workers, each["messages"], each["size"], each["ns"]) for each in found["sent"]]
    return sent + [summing(workers, each["size"], each["ns"]) for each in found["summed"]]
