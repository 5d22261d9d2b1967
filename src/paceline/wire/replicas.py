"""The proof that replicas are equal: a digest of what each rank holds, compared by all."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from paceline.wire.errors import ReplicaError
from paceline.wire.group import WireGroup
from paceline.wire.orders import Orders, Receive, Send, TransferPhase
from paceline.wire.settings import core

_KEY = np.zeros(16, np.uint8)  # that all know: the digest guards against errors, not people


def digest(arrays: Iterable[NDArray[np.float32]]) -> int:
    """SipHash of the arrays' bytes, one after the other."""
    found = 0
    for array in arrays:
        chained = np.frombuffer(found.to_bytes(8, "little") + bytes(8), np.uint8)
        found = core().wire_digest(chained, np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    return found


def prove_equal(group: WireGroup, arrays: Iterable[NDArray[np.float32]], *, step: int) -> int:
    """The digest that all ranks share; raises where one of them holds something else."""
    mine = np.array([digest(arrays)], np.uint64)
    rooms = {rank: np.zeros(1, np.uint64) for rank in group.others}
    sends = [Send(rank, mine) for rank in group.others]
    receives = [Receive(rank, room) for rank, room in rooms.items()]
    group.exchange(Orders(step, TransferPhase.DIGEST, sends, receives))
    apart = [rank for rank, room in rooms.items() if room[0] != mine[0]]
    if apart:
        raise ReplicaError(
            f"after step {step} rank {group.endpoint.rank} holds other values than "
            f"rank {', '.join(map(str, apart))}. Start them from the same checkpoint, and let all "
            "of them exchange every tensor"
        )
    return int(mine[0])
