"""How one bucket's payload travels: a route starts its collectives, and says what they count.

A route is chosen once for a plan. Every rank takes the same one, so all issue the same collectives
in the same order.
"""

from collections.abc import Callable
from typing import Any

import torch

from paceline.graph.partition import part_sizes
from paceline.runtime.codecs import Sharing
from paceline.runtime.codecs.torch_communicate import Under, share

Route = Callable[[Sharing, torch.Tensor, Any], Under]
"""By how payloads are shared, this rank's payload, and DDP's bucket."""


def direct(group: Any) -> Route:
    """One collective of the library."""
    return lambda sharing, payload, bucket: share(sharing, payload, group)


def in_parts(parts: int, route: Route) -> Route:
    """Several collectives, one behind the other, each with a part of the payload."""

    def start(sharing: Sharing, payload: torch.Tensor, bucket: Any) -> Under:
        slices = payload.split(part_sizes(payload.numel(), parts))
        under = [route(sharing, each, bucket) for each in slices]
        return _together(sharing, payload, under)

    return start if parts > 1 else route


def _together(sharing: Sharing, payload: torch.Tensor, under: list[Under]) -> Under:
    """Parts that are added up lie in the payload; those that are gathered are put together."""
    done = torch.futures.collect_all([each.future for each in under])
    members = len(under[0].payloads)
    whole = (payload,) if sharing is Sharing.SUM else _rows(payload, members)

    def put(ended: Any) -> None:
        for part in ended.value():
            part.value()  # raises where the collective failed
        for member, row in enumerate(whole if sharing is Sharing.GATHER else ()):
            torch.cat([each.payloads[member] for each in under], out=row)

    size, wire = sum(u.size_bytes for u in under), sum(u.wire_bytes for u in under)
    return Under(done.then(put), whole, size, wire, sum(u.calls for u in under))


def _rows(payload: torch.Tensor, members: int) -> tuple[torch.Tensor, ...]:
    return tuple(payload.new_empty(members, payload.numel()))
