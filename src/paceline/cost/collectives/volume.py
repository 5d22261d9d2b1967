"""How many bytes a member sends, on average, for each byte of a collective's payload."""

from collections.abc import Callable, Mapping
from typing import Final

from paceline.graph.kinds import Collective


def _nothing(_: int) -> float:
    return 0.0


def _once(_: int) -> float:
    return 1.0


def _all_but_own(members: int) -> float:
    return (members - 1) / members


def _there_and_back(members: int) -> float:
    return 2 * _all_but_own(members)


SENT: Final[Mapping[Collective, Callable[[int], float]]] = {
    Collective.ALL_REDUCE: _there_and_back,
    Collective.REDUCE_SCATTER: _all_but_own,
    Collective.ALL_GATHER: _all_but_own,
    Collective.ALL_TO_ALL: _all_but_own,
    Collective.BROADCAST: _all_but_own,
    Collective.REDUCE: _all_but_own,
    Collective.GATHER: _all_but_own,
    Collective.SCATTER: _all_but_own,
    Collective.PUSH: _all_but_own,
    Collective.PULL: _all_but_own,
    Collective.BARRIER: _nothing,
}


def sent_share(collective: Collective, members: int) -> float:
    """Bytes that a mean member sends per byte of payload."""
    return SENT.get(collective, _once)(members)
