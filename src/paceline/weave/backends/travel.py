"""Products whose rows are summed over the ranks while later rows are still being computed.

Between two ranks a chunk crosses once, directly, and each adds the other's: one hop, so that the
kernel's socket buffers keep the wire busy while the cores multiply. Among more, each chunk is one
asynchronous all-reduce. `taper` makes every chunk that much smaller than the one before: where
the product takes longer than the wire, the last chunk's way, which nothing hides, gets short.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist


@dataclass(frozen=True)
class Chunking:
    """How rows are cut: how many chunks, each `taper` times the one before."""

    chunks: int = 8
    taper: float = 1.0

    def borders(self, rows: int) -> list[int]:
        """The first row of every chunk but the first; ascending, within the rows."""
        chunks = max(min(self.chunks, rows), 1)
        weights = [self.taper**i for i in range(chunks)]
        ends = [round(rows * sum(weights[: i + 1]) / sum(weights)) for i in range(chunks - 1)]
        return [max(i + 1, min(end, rows - chunks + i + 1)) for i, end in enumerate(ends)]


def overlapped_product(
    left: Any,
    right: Any,
    group: Any,
    cut: Chunking,
    *,
    reduction: Any = dist.ReduceOp.SUM,
    meanwhile: Callable[[], None] = lambda: None,
) -> Any:
    """all_reduce(left @ right) by chunks of rows. `meanwhile` is run after the last chunk was
    sent and before it is waited for."""
    whole = torch.empty((*left.shape[:-1], right.shape[-1]), dtype=left.dtype, device=left.device)
    borders = cut.borders(left.shape[0])
    parts, outs = left.tensor_split(borders), whole.tensor_split(borders)
    direct = dist.get_world_size(group) == 2 and reduction == dist.ReduceOp.SUM
    travel = _Exchange(group, whole, borders) if direct else _Collectives(group, reduction)
    for number, (part, out) in enumerate(zip(parts, outs)):
        torch.matmul(part, right, out=out)
        travel.start(number, out)
    meanwhile()
    travel.finish(outs)
    return whole


class _Collectives:
    """One asynchronous all-reduce a chunk."""

    def __init__(self, group: Any, reduction: Any) -> None:
        self._group, self._reduction, self._handles = group, reduction, list[Any]()

    def start(self, number: int, out: Any) -> None:
        handle = dist.all_reduce(out, self._reduction, group=self._group, async_op=True)
        self._handles.append(handle)

    def finish(self, outs: Any) -> None:
        for handle in self._handles:
            handle.wait()


class _Exchange:
    """Both ranks send what they have and add what comes."""

    def __init__(self, group: Any, whole: Any, borders: list[int]) -> None:
        ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
        self._group, self._peer = group, ranks[1 - dist.get_rank(group)]
        self._arriving = torch.empty_like(whole).tensor_split(borders)
        self._coming = [
            dist.irecv(part, self._peer, group=group, tag=number)
            for number, part in enumerate(self._arriving)
        ]
        self._going: list[Any] = []

    def start(self, number: int, out: Any) -> None:
        self._going.append(dist.isend(out, self._peer, group=self._group, tag=number))

    def finish(self, outs: Any) -> None:
        """Added only once sent: the chunk is its own send buffer."""
        for coming, going, part, out in zip(self._coming, self._going, self._arriving, outs):
            coming.wait()
            going.wait()
            out.add_(part)
