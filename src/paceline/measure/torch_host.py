"""What a host spends on a call of an operator, Python and modules included, beside its GPU."""

import time
from typing import Any, Final

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

_WARM: Final = 5
_RUNS: Final = 15
_WIDTH: Final = 128


def call_ns(device: torch.device) -> float:
    """The median over passes of a small encoder, whose kernels are done before the host is. On a
    processor its work is in it."""
    torch.manual_seed(0)
    model = nn.Sequential(*(_Block() for _ in range(4))).to(device).eval()
    data = torch.randn(1, 16, _WIDTH, device=device)
    with torch.no_grad():
        calls = _calls(model, data)
        for _ in range(_WARM):
            model(data)
        took = sorted(_pass_ns(model, data) for _ in range(_RUNS))
    return took[len(took) // 2] / calls


class _Block(nn.Module):  # type: ignore[misc]
    """A layer as models write it: views and small operators between products."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.both = nn.LayerNorm(_WIDTH), nn.Linear(_WIDTH, 2 * _WIDTH)
        self.act, self.back = nn.GELU(), nn.Linear(_WIDTH, _WIDTH)

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        gate, up = self.both(self.norm(data)).chunk(2, dim=-1)
        return data + self.back(self.act(gate) * up)


class _Counted(TorchDispatchMode):  # type: ignore[misc]
    """Counts operators below autograd, views among them."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += func.namespace != "prim"
        return func(*args, **(kwargs or {}))


def _calls(model: nn.Module, data: torch.Tensor) -> int:
    with _Counted() as counted:
        model(data)
    calls: int = counted.calls
    return calls


def _pass_ns(model: nn.Module, data: torch.Tensor) -> int:
    """Of the host alone: it does not wait for the device."""
    begin = time.perf_counter_ns()
    model(data)
    took = time.perf_counter_ns() - begin
    if data.is_cuda:
        torch.cuda.synchronize()
    return took
