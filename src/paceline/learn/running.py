"""`run`: many clients, carried by few workers, train round after round.

Every worker makes the same calls in the same order; what is random is drawn from the seed, the
client and the round. So the run is the same, client by client, on any number of workers. Where a
worker dies the others go on without its clients.
"""

from dataclasses import replace

from paceline.learn.algorithm import Served
from paceline.learn.carrier import Alone, Carrier
from paceline.learn.driver import Driver, Told
from paceline.learn.errors import Disconnected, LearnError
from paceline.learn.peers_run import PeersRun
from paceline.learn.record import LearnRun
from paceline.learn.served_run import ServedRun
from paceline.learn.task import Task


def run(task: Task, carrier: Carrier | None = None, told: Told | None = None) -> LearnRun:
    """The whole record on worker 0; on others what they know of it."""
    carrier = carrier or Alone()
    if carrier.workers > len(task.partition):
        raise LearnError(
            f"{carrier.workers} workers cannot carry {len(task.partition)} clients: each carries "
            "one at least. Start fewer workers."
        )
    task = replace(task, algorithm=task.algorithm.prepared(task.setting, carrier))
    served = isinstance(task.algorithm, Served)
    return finished(ServedRun(task, carrier) if served else PeersRun(task, carrier), told)


def finished(driver: Driver, told: Told | None = None) -> LearnRun:
    """Round after round, also where workers are lost meanwhile."""
    number, last = 0, False
    while not last:
        driver.begin(number)
        try:
            last = _round(driver, number, told)
            number += 1
        except Disconnected as lost:
            number = driver.go_on(driver.carrier.reformed(number, lost))
    return driver.record()


def _round(driver: Driver, number: int, told: Told | None) -> bool:
    """Whether it was the last."""
    task = driver.task
    driver.round(number)
    last = number == task.rounds - 1 or driver.has_seen_enough()
    if last or (number + 1) % task.every == 0:
        driver.judge(number, told)
    return last
