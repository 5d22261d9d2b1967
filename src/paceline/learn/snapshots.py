"""States of a driver at the beginning of its latest rounds, to go on from behind a loss.

Workers stand at most as many rounds apart as messages may travel behind, and one more.
"""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from paceline.learn.client import Client

_NOTED = ("rounds", "untold", "judged", "members", "left_out")


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One round's beginning."""

    clients: dict[int, Client]
    server: dict[str, Any] | None
    kept: dict[str, Any]  # what was noted so far, by attribute


class Snapshots:
    """The latest few, by round."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._by_round: dict[int, Snapshot] = {}

    def keep(self, round_: int, driver: Any) -> None:
        clients = {n: client.copied() for n, client in driver.mine.items()}
        kept = {name: getattr(driver, name).copy() for name in _NOTED}
        kept |= {"sent": driver.sent, "steps": driver.steps}
        self._by_round[round_] = Snapshot(clients, deepcopy(driver.server), kept)
        for old in sorted(self._by_round)[: -self._count]:
            del self._by_round[old]

    def restore(self, round_: int, driver: Any) -> None:
        """The driver as it was; later snapshots are of what never was."""
        found = self._by_round[round_]
        self._by_round = {n: each for n, each in self._by_round.items() if n < round_}
        driver.mine = {n: client.copied() for n, client in found.clients.items()}
        driver.server = deepcopy(found.server)
        for name, value in found.kept.items():
            setattr(driver, name, value.copy() if hasattr(value, "copy") else value)
