"""A `torch.distributed` backend: sums of float32 go over the transport, all else over gloo.

    import paceline.wire.torch_backend              # registers it
    dist.init_process_group("paceline")

`PACELINE_WIRE` gives the bounds and this host's link, such as `gradients=0.01,link=100e6`.
"""

import os
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from paceline.runtime.torch_turns import run_into
from paceline.wire.endpoint import Address, Endpoint, JobKey
from paceline.wire.errors import WireError
from paceline.wire.group import Bounds, WireGroup
from paceline.wire.settings import Tuning
from paceline.wire.torch_carrier import own_host

NAME = "paceline"


def settings(text: str) -> tuple[Bounds, Tuning]:
    """What `PACELINE_WIRE` says."""
    known = {"gradients": 0.0, "parameters": 0.0, "step": 1.0, "link": 1e9}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        try:
            known[name] = known[name] * 0 + float(value)
        except (KeyError, ValueError):
            raise WireError(
                f"PACELINE_WIRE has {part!r}; give {', '.join(f'{n}=NUMBER' for n in known)}, "
                "with commas between them"
            ) from None
    link = known.pop("link")
    return Bounds(**known), Tuning(link_bits_per_s=link)


class WireProcessGroup(dist.ProcessGroup):  # type: ignore[misc]
    """Pure Python: all-reduces of float32 sums are ours, everything else is gloo's."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self._gloo = dist.ProcessGroupGloo(dist.PrefixStore("gloo", store), rank, size, timeout)
        bounds, tuning = settings(os.environ.get("PACELINE_WIRE", ""))
        self._endpoint = _endpoint(dist.PrefixStore("wire", store), rank, size, tuning)
        self._wire = WireGroup(self._endpoint, range(size), bounds)
        self._turns = ThreadPoolExecutor(1, "wire")
        self._step = 0

    def allreduce(self, tensors: list[torch.Tensor], opts: Any = None) -> Any:
        if not _ours(tensors, opts):
            return self._gloo.allreduce(tensors, opts or dist.AllreduceOptions())
        self._step += 1
        step, values = self._step, tensors[0].detach().view(-1).numpy()
        return self._later(tensors, lambda: self._wire.all_reduce(values, step=step))

    def _later(self, tensors: list[torch.Tensor], reduce: Callable[[], None]) -> Any:
        future: Any = torch.futures.Future()

        def give() -> list[torch.Tensor]:
            reduce()
            return tensors

        self._turns.submit(run_into, future, give)
        return torch._C._distributed_c10d._create_work_from_future(future)

    @property
    def ledger(self) -> Any:
        """What was lost of each exchange."""
        return self._wire.ledger

    def shutdown(self) -> None:
        self._turns.shutdown()
        self._endpoint.close()

    def getBackendName(self) -> str:
        return NAME


def _ours(tensors: list[torch.Tensor], opts: Any) -> bool:
    one = tensors[0] if len(tensors) == 1 else None
    sums = opts is None or opts.reduceOp == dist.ReduceOp.SUM
    return (
        sums and one is not None and one.dtype is torch.float32 and one.is_contiguous()
        and one.device.type == "cpu" and not one.is_sparse
    )  # fmt: skip


def _endpoint(store: Any, rank: int, size: int, tuning: Tuning) -> Endpoint:
    """Met over the group's store."""
    if rank == 0:
        store.set("key", secrets.token_bytes(16))
        store.set("job", str(secrets.randbits(32)))
    job = JobKey(int(store.get("job")), bytes(store.get("key")))
    made = Endpoint(rank, job, Address(own_host(), 0), tuning)
    store.set(f"place-{rank}", f"{made.address.host} {made.address.port}")
    told = [bytes(store.get(f"place-{other}")).decode().split() for other in range(size)]
    made.connect({n: Address(host, int(port)) for n, (host, port) in enumerate(told)})
    return made


_GLOO = (
    "allgather", "_allgather_base", "allgather_coalesced", "allgather_into_tensor_coalesced",
    "allreduce_coalesced", "alltoall", "alltoall_base", "barrier", "broadcast", "gather", "reduce",
    "reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor_coalesced", "scatter", "send",
    "recv", "recv_anysource", "monitored_barrier",
)  # fmt: skip
"""What the other group does for this one."""


def _by_gloo(name: str) -> Callable[..., Any]:
    def call(self: WireProcessGroup, *arguments: Any, **given: Any) -> Any:
        return getattr(self._gloo, name)(*arguments, **given)

    return call


for _name in _GLOO:
    setattr(WireProcessGroup, _name, _by_gloo(_name))

dist.Backend.register_backend(NAME, WireProcessGroup, devices=["cpu"])
