"""How payloads are shared: added up by the library, or gathered by all.

Each way starts the collective and returns a future of the payloads that stand for the sum, and says
what the call counts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from paceline.cost.collectives.volume import sent_share
from paceline.graph import Collective
from paceline.runtime.codecs.codec import Sharing


@dataclass(frozen=True)
class Under:
    """A collective that is under way."""

    future: Any  # of torch; done when `payloads` may be read
    payloads: Sequence[torch.Tensor]
    size_bytes: int  # as the graph counts it
    wire_bytes: int  # what a mean member of a ring sends
    calls: int = 1


def counted(sharing: Sharing, payload: torch.Tensor, group: Any) -> tuple[int, int]:
    """`size_bytes` and `wire_bytes` of a collective that would be started so."""
    members = dist.get_world_size(group)
    size = payload.numel() * payload.element_size() * (members if sharing is Sharing.GATHER else 1)
    return size, _sent(_COLLECTIVES[sharing], size, group)


def share(sharing: Sharing, payload: torch.Tensor, group: Any) -> Under:
    return _WAYS[sharing](payload, group)


def _summed(payload: torch.Tensor, group: Any) -> Under:
    work = dist.all_reduce(payload, group=group, async_op=True)
    return Under(work.get_future(), (payload,), *counted(Sharing.SUM, payload, group))


def _gathered(payload: torch.Tensor, group: Any) -> Under:
    members = dist.get_world_size(group)
    whole = payload.new_empty(members * payload.numel())
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # before 2.13
    work = gather(whole, payload, group=group, async_op=True)
    parts = tuple(whole.chunk(members))
    return Under(work.get_future(), parts, *counted(Sharing.GATHER, payload, group))


def _sent(collective: Collective, size_bytes: int, group: Any) -> int:
    return round(size_bytes * sent_share(collective, dist.get_world_size(group)))


_COLLECTIVES = {Sharing.SUM: Collective.ALL_REDUCE, Sharing.GATHER: Collective.ALL_GATHER}
_WAYS: dict[Sharing, Callable[[torch.Tensor, Any], Under]] = {
    Sharing.SUM: _summed,
    Sharing.GATHER: _gathered,
}
