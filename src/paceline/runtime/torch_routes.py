"""How one bucket's payload travels: a route starts its collectives, and says what they count.

A route is chosen once for a plan. Every rank takes the same one, so all issue the same collectives
in the same order.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from paceline.graph.partition import part_sizes
from paceline.runtime.codecs import Sharing
from paceline.runtime.codecs.torch_communicate import Under, counted, share
from paceline.runtime.exchange import Exchange
from paceline.runtime.torch_groups import require_gloo
from paceline.runtime.torch_priority import Scheduler, scheduler

Route = Callable[[Sharing, torch.Tensor, Any], Under]
"""By how payloads are shared, this rank's payload, and DDP's bucket."""


@contextmanager
def route_of(asked: Exchange, replica: Any) -> Iterator[Route]:
    """The way that a plan asks for, of one DDP module."""
    group = replica.process_group
    if not asked.by_priority:
        yield in_parts(asked.parts, direct(group))
        return
    require_gloo(group, "the order of exchanges (priority)")
    order = {id(parameter): at for at, parameter in enumerate(replica.parameters())}
    with scheduler(group) as agreed:
        yield in_parts(asked.parts, by_priority(agreed, order))


def direct(group: Any) -> Route:
    """One collective of the library."""
    return lambda sharing, payload, bucket: share(sharing, payload, group)


def by_priority(agreed: Scheduler, order: dict[int, int]) -> Route:
    """One exchange at a time, first that of the parameter that the model defines first."""

    def start(sharing: Sharing, payload: torch.Tensor, bucket: Any) -> Under:
        payloads: list[torch.Tensor] = []

        def exchange() -> None:
            under = share(sharing, payload, agreed.group)
            under.future.wait()
            payloads.extend(under.payloads)

        first = min(order[id(parameter)] for parameter in bucket.parameters())
        size, wire = counted(sharing, payload, agreed.group)
        return Under(agreed.submit(first, exchange), payloads, size, wire)

    return start


def in_parts(parts: int, route: Route) -> Route:
    """Several collectives, one behind the other, each with a part of the payload."""

    def start(sharing: Sharing, payload: torch.Tensor, bucket: Any) -> Under:
        slices = payload.split(part_sizes(payload.numel(), parts))
        return _together(sharing, payload, [route(sharing, each, bucket) for each in slices])

    return start if parts > 1 else route


def _together(sharing: Sharing, payload: torch.Tensor, under: list[Under]) -> Under:
    """Parts that are added up lie in the payload; those that are gathered are put together."""
    whole: list[torch.Tensor] = []

    def put(ended: Any) -> None:
        for part in ended.value():
            part.value()  # raises where the collective failed
        rows = zip(*(each.payloads for each in under))
        whole.extend([payload] if sharing is Sharing.SUM else map(torch.cat, rows))

    done = torch.futures.collect_all([each.future for each in under]).then(put)
    size, wire = sum(u.size_bytes for u in under), sum(u.wire_bytes for u in under)
    return Under(done, whole, size, wire, sum(u.calls for u in under))
