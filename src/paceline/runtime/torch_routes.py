"""How one bucket's payload travels: a route starts its collectives, and says what they count.

A route is chosen once for a plan. Every rank takes the same one, so all issue the same collectives
in the same order.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.distributed as dist

from paceline.cost.collectives.volume import sent_share
from paceline.graph import Collective
from paceline.graph.hierarchy import Levels
from paceline.graph.partition import part_sizes
from paceline.runtime.codecs import Sharing
from paceline.runtime.codecs.torch_communicate import Under, counted, share
from paceline.runtime.exchange import Exchange, ExchangeError
from paceline.runtime.torch_groups import new_groups, require_gloo
from paceline.runtime.torch_priority import Scheduler, scheduler
from paceline.runtime.torch_servers import served
from paceline.runtime.torch_turns import in_turn

Route = Callable[[Sharing, torch.Tensor, Any], Under]
"""By how payloads are shared, this rank's payload, and DDP's bucket."""


@contextmanager
def route_of(asked: Exchange, replica: Any) -> Iterator[Route]:
    """The way that a plan asks for, of one DDP module."""
    with ExitStack() as stack:
        yield in_parts(asked.parts, stack.enter_context(_whole(asked, replica)))


@contextmanager
def _whole(asked: Exchange, replica: Any) -> Iterator[Route]:
    """Of a payload that is not cut."""
    group = replica.process_group
    if asked.by_priority:
        require_gloo(group, "the order of exchanges (priority)")
        order = {id(parameter): at for at, parameter in enumerate(replica.parameters())}
        with scheduler(group) as agreed:
            yield by_priority(agreed, order)
    elif asked.on_host:
        require_gloo(group, "an exchange host by host (hierarchical)")
        with in_levels(group, asked.on_host) as route:
            yield route
    elif asked.served:
        require_gloo(group, "an exchange by parameter servers")
        with served(group) as start:
            yield lambda sharing, payload, bucket: start(_sums(sharing, payload))
    elif asked.carrier is not None:
        with asked.carrier(group) as carry:
            yield lambda sharing, payload, bucket: carry(_sums(sharing, payload), bucket)
    else:
        yield direct(group)


@contextmanager
def in_levels(group: Any, on_host: int) -> Iterator[Route]:
    """Sums inside each host, exchanged by the hosts' first ranks, and handed out."""
    ranks = tuple(dist.get_process_group_ranks(group))
    levels = Levels.of(dist.get_rank(), ranks, on_host, led=True)
    lead = levels.inside[0]
    wanted = [ranks for ranks in (levels.inside, levels.across) if ranks]
    with new_groups(wanted) as groups, in_turn() as submit:
        inside, across = groups[levels.inside], groups.get(levels.across)

        def start(sharing: Sharing, payload: torch.Tensor, bucket: Any) -> Under:
            _sums(sharing, payload)

            def exchange() -> None:
                dist.reduce(payload, lead, group=inside)
                if across is not None:
                    dist.all_reduce(payload, group=across)
                dist.broadcast(payload, lead, group=inside)

            size = payload.numel() * payload.element_size()
            sent = [(Collective.REDUCE, levels.inside), (Collective.BROADCAST, levels.inside)]
            sent += [(Collective.ALL_REDUCE, levels.across)] if across is not None else []
            wire = sum(round(size * sent_share(kind, len(ranks))) for kind, ranks in sent)
            return Under(submit(exchange), (payload,), len(sent) * size, wire, len(sent))

        yield start


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
    """Parts that are added up lie in the payload; those that are gathered are put together. What
    collects their futures knows no device, so each is waited for: that puts this stream of a GPU
    behind what came for the part, and raises where the collective failed."""
    whole: list[torch.Tensor] = []

    def put(ended: Any) -> None:
        for part in ended.value():
            part.wait()
        rows = zip(*(each.payloads for each in under))
        whole.extend([payload] if sharing is Sharing.SUM else map(torch.cat, rows))

    done = torch.futures.collect_all([each.future for each in under]).then(put)
    size, wire = sum(u.size_bytes for u in under), sum(u.wire_bytes for u in under)
    return Under(done, whole, size, wire, sum(u.calls for u in under))


def _sums(sharing: Sharing, payload: torch.Tensor) -> torch.Tensor:
    """The payload, if it is one that adds up."""
    if sharing is not Sharing.SUM:
        raise ExchangeError(
            "payloads that are gathered cannot be added up on their way; leave the codec out of "
            "the plan"
        )
    return payload
