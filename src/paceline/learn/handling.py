"""`handling`: what messages take of a worker's processor, measured between processes here.

Two workers and then four carry messages over loopback, each time behind a rest and a step of a
small network, as the workers of a run do. Then all of them take such steps behind rests, which cost
processor time against the same steps of one worker in a row; and small messages when all are ready,
which come later than processor time explains. What a lab adds (shaped queues, its switch) is not in
it.
"""

import statistics
from typing import Any

from paceline.cost.collectives.algorithm import Call
from paceline.cost.collectives.gloo import Gloo
from paceline.graph import Collective
from paceline.launch import LaunchError, first_of
from paceline.learn.errors import LearnError
from paceline.machine import usable_cores
from paceline.measure.handling import Handled, Handling, Waited, fitted, sending, summing

GROUPS = (2, 4)


def handling(turns: int = 24) -> Handling:
    """Fitted to the means of so many turns."""
    found = {workers: _measured(workers, turns) for workers in GROUPS}
    handled = [each for workers, told in found.items() for each in _handled(workers, told)]
    waited = [_waited(workers, **each) for workers, told in found.items() for each in told["waits"]]
    cores = usable_cores()
    return fitted(
        handled,
        cold_ns=statistics.mean(max(0.0, told["cold"]) for told in found.values()),
        stall_ns=statistics.mean(each.stall_ns(cores) for each in waited),
    )


def _measured(workers: int, turns: int) -> Any:
    """What the first of so many workers found."""
    try:
        return first_of(workers, "paceline.learn.torch_handling", turns)
    except LaunchError as problem:
        raise LearnError(f"messages were not carried: {problem}") from None


def _handled(workers: int, found: Any) -> list[Handled]:
    sent = [sending(workers, each["messages"], each["size"], each["ns"]) for each in found["sent"]]
    return sent + [summing(workers, each["size"], each["ns"]) for each in found["summed"]]


def _waited(
    workers: int, collective: str, size_bytes: int, wall_ns: float, cpu_ns: float
) -> Waited:
    """With as many messages as the collective is priced with."""
    rounds = Gloo().rounds(Call(Collective[collective], size_bytes, tuple(range(workers))))
    return Waited(workers, sum(each.repeat for each in rounds), wall_ns, cpu_ns)
