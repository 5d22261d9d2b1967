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


def arriving(parts: Sequence[torch.Tensor], group: object) -> Iterator[torch.Tensor]:
    """What the other ranks have for this one. `parts` are by rank of the group and of one length;
    what came may be overwritten once the next is asked for."""
    on_cpu = dist.get_backend(group) == "gloo" and parts[0].device.type == "cpu"
    if on_cpu and not is_recorded():
        yield from _in_rounds(parts, group)
        return
    came = torch.stack([torch.empty_like(part) for part in parts])
    dist.all_to_all_single(came, torch.stack(list(parts)), group=group)
    yield from _others(came.unbind(), dist.get_rank(group))


def _in_rounds(parts: Sequence[torch.Tensor], group: object) -> Iterator[torch.Tensor]:
    """In round n each rank sends to the n-th behind it and hears from the n-th before it."""
    rank, count = dist.get_rank(group), len(parts)
    came = torch.empty_like(parts[rank], memory_format=torch.contiguous_format)
    for far in range(1, count):
        to, source = (rank + far) % count, (rank - far) % count
        got = dist.irecv(came, group=group, tag=_TAG, group_src=source)
        put = dist.isend(parts[to].contiguous(), group=group, tag=_TAG, group_dst=to)
        got.wait()
        put.wait()
        yield came


def _others(parts: Sequence[torch.Tensor], rank: int) -> Iterator[torch.Tensor]:
    yield from (part for place, part in enumerate(parts) if place != rank)
