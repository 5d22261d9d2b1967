"""FSDP2's reduce-scatter by a codec: each rank packs every owner's part of the gradients by itself,
all parts travel to their owners, and each adds up what it got.

torch lets a module's reduce-scatter be replaced (`FSDPModule.set_custom_reduce_scatter`) and waits
for it; so packing and unpacking are not hidden behind the backward pass, as the reduction itself is
not on a CPU.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from time import perf_counter_ns
from typing import Any

import torch
import torch.distributed as dist

from paceline.cost.collectives.volume import sent_share
from paceline.graph import Collective
from paceline.runtime.codecs import Codec, Compressor, Turn
from paceline.runtime.codecs.torch_memory import CodecMemory, memory_of
from paceline.runtime.codecs.torch_sparse import Layerwise
from paceline.runtime.exchange import ExchangeError, Sent
from paceline.runtime.torch_all_to_all import arriving
from paceline.runtime.torch_param_groups import param_groups

SHARES: Mapping[Any, Callable[[int], float]] = {
    dist.ReduceOp.SUM: lambda _: 1.0,
    dist.ReduceOp.AVG: lambda members: 1 / members,
}


def sharded_modules(model: Any) -> list[Any]:
    """The modules that FSDP2 made of the model's, innermost last."""
    from torch.distributed.fsdp import FSDPModule

    return [module for module in model.modules() if isinstance(module, FSDPModule)]


@contextmanager
def with_codec(modules: Sequence[Any], codec: Codec, sent: Sent) -> Iterator[None]:
    """The modules' gradients travel by the codec until the context is left."""
    how = codec.compressor
    if not isinstance(how, Compressor):
        raise ExchangeError(
            "this codec takes two rounds over whole matrices or buckets, and FSDP2 reduces rows of "
            "many matrices in one; take another codec"
        )
    if isinstance(how, Layerwise):
        raise ExchangeError(
            "layerwise codecs treat each parameter by itself, and FSDP2 reduces one vector of the "
            "parts of many; give layerwise=False"
        )
    places = count()
    with ExitStack() as stack:
        for module in modules:
            stack.enter_context(_replaced(module, ReduceScatter(codec, how, places, sent)))
        yield


class ReduceScatter:
    """One module's, in the form in which FSDP2 takes another one."""

    def __init__(self, codec: Codec, how: Compressor, places: Iterator[int], sent: Sent) -> None:
        self._codec, self._how, self._places, self._sent = codec, how, places, sent
        self._memory: CodecMemory | None = None  # made when the group is known
        self._place, self._step = 0, 0  # among the modules, in the order of their calls

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: Any) -> torch.Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: Any,
        op: Any,
        async_op: bool = False,
    ) -> None:
        """Done when it returns; FSDP2 asks for no other way."""
        if input_tensor.dtype != torch.float32 or op not in SHARES or async_op:
            raise ExchangeError(
                f"codecs pack float32 gradients that are summed or averaged, and FSDP2 reduces "
                f"{input_tensor.dtype} by {op}; leave the codec out"
            )
        began, members = perf_counter_ns(), dist.get_world_size(group)
        if self._memory is None:
            self._memory, self._place = memory_of(self._codec, members), next(self._places)
        turns = [Turn(self._place, self._step, part=owner) for owner in range(members)]
        parts = input_tensor.mul_(SHARES[op](members)).chunk(members)
        payloads = [self._packed(part, turn) for part, turn in zip(parts, turns)]
        packed = perf_counter_ns()
        self._count(payloads, group)
        came = [other.clone() for other in arriving(payloads, group)]
        arrived, rank = perf_counter_ns(), dist.get_rank(group)
        self._how.restore(output_tensor, payloads[rank], turns[rank])
        for other in came:
            self._how.add(output_tensor, other, turns[rank])
        self._sent.coded(packed - began + perf_counter_ns() - arrived)
        self._step += 1
        if self._step > self._sent.steps:
            self._sent.stepped()

    def _packed(self, part: torch.Tensor, turn: Turn) -> torch.Tensor:
        assert self._memory is not None
        corrected = self._memory.corrected((turn.part,), part)
        payload = self._how.compress(corrected, turn)
        self._memory.sent(corrected, payload, self._how, turn)
        return payload

    def _count(self, payloads: Sequence[torch.Tensor], group: Any) -> None:
        size = sum(payload.numel() * payload.element_size() for payload in payloads)
        self._sent.call(size, round(size * sent_share(Collective.ALL_TO_ALL, len(payloads))))


@contextmanager
def _replaced(module: Any, comm: ReduceScatter) -> Iterator[None]:
    groups = param_groups(module._get_fsdp_state())
    before = [group._reduce_scatter_comm for group in groups]
    module.set_custom_reduce_scatter(comm)
    try:
        yield
    finally:
        for group, own in zip(groups, before):
            group._reduce_scatter_comm = own
