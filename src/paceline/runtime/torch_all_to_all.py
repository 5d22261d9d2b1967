"""`arriving`: each rank has a part for every other one, and gets theirs one after the other.

Gloo's all-to-all sends all parts at once. Where they meet, the flows into one link do not share it
evenly, and some links stand idle at the end: among four workers at 100 Mbit/s it took 240 to 310 ms
where one flow a link, round by round, takes 205; between two it took 135 to 155 where that takes
134. What lies on a device goes all at once, for gloo sends no messages of it; and so do parts in a
process that is recorded: a collective is known as the exchange of replicas, and can be carried to
other numbers of them, where messages between two cannot.
"""

from collections.abc import Iterator, Sequence

import torch
import torch.distributed as dist

from paceline.record.torch_job import is_recorded

_TAG = 7403
"""Apart from what a script sends by itself over the same group."""

_PIECE = 512 * 1024
"""Bytes for each rank in one call of those at once. Gloo sends a message and receives one over the
same connection in turn; with several calls under way a link carries both ways."""


def arriving(parts: Sequence[torch.Tensor], group: object) -> Iterator[torch.Tensor]:
    """What the other ranks have for this one. `parts` are by rank of the group and of one length;
    what came may be overwritten once the next is asked for."""
    return (part for _, part in arriving_from(parts, group))


def arriving_from(
    parts: Sequence[torch.Tensor], group: object
) -> Iterator[tuple[int, torch.Tensor]]:
    """The same, with the place in the group of who sent it."""
    on_cpu = dist.get_backend(group) == "gloo" and parts[0].device.type == "cpu"
    if on_cpu and not is_recorded():
        yield from _in_rounds(parts, group)
        return
    rank = dist.get_rank(group)
    every = enumerate(_at_once(parts, group))
    yield from ((place, part) for place, part in every if place != rank)


def add_up(mine: torch.Tensor, whole: torch.Tensor, group: object) -> None:
    """Of as many equal parts as the group has ranks, in order, this rank's becomes the sum of all
    ranks'. Parts go straight to their owners: gloo's reduce-scatter is an all-reduce, which sends
    twice as much."""
    parts = whole.view(dist.get_world_size(group), *mine.shape).unbind()
    mine.copy_(parts[dist.get_rank(group)])
    for part in arriving(parts, group):
        mine.add_(part)


def _in_rounds(parts: Sequence[torch.Tensor], group: object) -> Iterator[tuple[int, torch.Tensor]]:
    """In round n each rank sends to the n-th behind it and hears from the n-th before it."""
    rank, count = dist.get_rank(group), len(parts)
    came = torch.empty_like(parts[rank], memory_format=torch.contiguous_format)
    for far in range(1, count):
        to, source = (rank + far) % count, (rank - far) % count
        got = dist.irecv(came, group=group, tag=_TAG, group_src=source)
        put = dist.isend(parts[to].contiguous(), group=group, tag=_TAG, group_dst=to)
        got.wait()
        put.wait()
        yield source, came


def _at_once(parts: Sequence[torch.Tensor], group: object) -> Sequence[torch.Tensor]:
    """What came from each rank, this one too."""
    pieces = torch.stack(list(parts)).split(max(1, _PIECE // parts[0].element_size()), 1)
    came = [torch.empty_like(piece, memory_format=torch.contiguous_format) for piece in pieces]
    calls = [
        dist.all_to_all_single(to, piece.contiguous(), group=group, async_op=True)
        for to, piece in zip(came, pieces)
    ]
    for call in calls:
        call.wait()
    found: Sequence[torch.Tensor] = torch.cat(came, 1).unbind()
    return found
