"""Arithmetic that recorded shapes tell, against torch's own count, for ten models on the processor.

`FlopCounterMode` counts products, convolutions and attention as torch calls them; here the same
passes are recorded with the profiler and read back. Attention is compared without what a causal
mask spares, which torch counts too. `flops_error` is the worst class of the worst model.
`flops_disputed` is a model beside the ten: of a grouped convolution torch counts the weights'
gradient as if there were one group, which is more than is done. Its forward pass is among the ten.
"""

import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from paceline.graph.work import Family
from paceline.trace.readers import read_all
from paceline.trace.readers.source import sources
from paceline.trace.shapes import worked_of
from paceline.trace.view import RankView

CLASSES = {
    "mm": Family.MATRIX,
    "addmm": Family.MATRIX,
    "bmm": Family.MATRIX,
    "baddbmm": Family.MATRIX,
    "convolution": Family.CONVOLUTION,
    "_convolution": Family.CONVOLUTION,
    "convolution_backward": Family.CONVOLUTION,
    "_scaled_dot_product_flash_attention_for_cpu": Family.ATTENTION,
    "_scaled_dot_product_flash_attention_for_cpu_backward": Family.ATTENTION,
}
"""Torch's operators that it counts, by our families."""


def figures(models: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    try:
        import torch  # noqa: F401
    except ImportError:
        return {"flops_error": None, "flops_rows": "torch is not installed"}
    rows = [row(name, made()) for name, made in models.items()]
    return {
        "flops_error": max(row["worst"] for row in rows),
        "flops_rows": rows,
        "flops_disputed": row("depthwise convolution, trained", _convolutions("grouped")),
    }


def row(name: str, run: Callable[[], Any]) -> dict[str, Any]:
    counted, read = counted_flops(run), recorded_flops(run)
    errors = {
        family.name.lower(): read.get(family, 0) / flops - 1
        for family, flops in counted.items()
        if flops
    }
    return {
        "model": name,
        "gflop": sum(counted.values()) / 1e9,
        "error": errors,
        "worst": max(map(abs, errors.values()), default=0.0),
    }


def counted_flops(run: Callable[[], Any]) -> dict[Family, int]:
    """By torch. Forward attention on the processor is not in its table and is counted as a flash
    kernel's; backward it is made of products."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

    aten = torch.ops.aten

    def forward(q: Any, k: Any, v: Any, *_: Any, out_shape: Any = None, **__: Any) -> int:
        return int(sdpa_flop_count(q, k, v))

    def backward(
        grad: Any, q: Any, k: Any, v: Any, *_: Any, out_shape: Any = None, **__: Any
    ) -> int:
        return int(sdpa_backward_flop_count(grad, q, k, v))

    mapping: Any = {
        aten._scaled_dot_product_flash_attention_for_cpu: forward,
        aten._scaled_dot_product_flash_attention_for_cpu_backward: backward,
    }
    with FlopCounterMode(display=False, custom_mapping=mapping) as counter:
        run()
    found: dict[Family, int] = defaultdict(int)
    for operator, flops in counter.get_flop_counts().get("Global", {}).items():
        found[CLASSES[str(operator).removeprefix("aten.").partition(".")[0]]] += int(flops)
    return found


def recorded_flops(run: Callable[[], Any]) -> dict[Family, int]:
    """By the shapes in the profiler's trace."""
    import torch

    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True
    ) as profiler:
        run()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        view = RankView(read_all(sources([path]))[0])
    worked, found = worked_of(view), defaultdict(int)
    for place in worked.row[worked.row >= 0].tolist():
        work = worked.recorded[place].work
        found[work.family] += work.dense_flops
    return found


def _training(model: Any, inputs: Any, loss: Callable[[Any], Any]) -> Callable[[], Any]:
    def run() -> None:
        loss(model(*inputs)).backward()

    return run


def _sum(result: Any) -> Any:
    return (result[0] if isinstance(result, tuple) else result).sum()


def _inference(block: str) -> Any:
    from torch import no_grad, randn

    model = _layers(block)

    def run() -> None:
        with no_grad():
            model(randn(4, 3, 32, 32))

    return run


def _mlp() -> Any:
    from torch import nn, randn

    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10))
    return _training(model, [randn(32, 256)], _sum)


def _layers(block: str) -> Any:
    from torch import nn

    layers = {
        "plain": [nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5)],
        "strided": [nn.Conv2d(3, 64, 7, 2, 3), nn.BatchNorm2d(64), nn.Conv2d(64, 64, 3, 2)],
        "grouped": [nn.Conv2d(3, 32, 1), nn.Conv2d(32, 32, 3, groups=32), nn.Conv2d(32, 64, 1)],
        "dilated": [nn.Conv2d(3, 16, 3, dilation=2), nn.Conv2d(16, 32, 3, stride=2, dilation=3)],
    }[block]
    return nn.Sequential(*layers)


def _convolutions(block: str) -> Any:
    from torch import randn

    return _training(_layers(block), [randn(4, 3, 32, 32)], _sum)


def _signal() -> Any:
    from torch import nn, randn

    model = nn.Sequential(nn.Conv1d(8, 16, 9, 3), nn.GELU(), nn.Conv1d(16, 32, 5, padding=2))
    return _training(model, [randn(4, 8, 200)], _sum)


def _volume() -> Any:
    from torch import nn, randn

    model = nn.Sequential(nn.Conv3d(2, 8, 3), nn.ReLU(), nn.Conv3d(8, 8, 3, 2))
    return _training(model, [randn(2, 2, 12, 12, 12)], _sum)


def _generator() -> Any:
    from torch import nn, randn

    model = nn.Sequential(
        nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(8, 3, 4, 2, 1)
    )
    return _training(model, [randn(4, 16, 8, 8)], _sum)


def _attention(causal: bool) -> Any:
    from torch import nn, randn
    from torch.nn.functional import scaled_dot_product_attention

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.project, self.out = nn.Linear(128, 384), nn.Linear(128, 128)

        def forward(self, x: Any) -> Any:
            b, s, _ = x.shape
            q, k, v = (
                part.view(b, s, 4, 32).transpose(1, 2) for part in self.project(x).chunk(3, -1)
            )
            seen = scaled_dot_product_attention(q, k, v, is_causal=causal)
            return self.out(seen.transpose(1, 2).reshape(b, s, 128))

    return _training(Block(), [randn(2, 64, 128)], _sum)


def _batched() -> Any:
    """Attention without a fused kernel: products of batches, with and without something added."""
    from torch import baddbmm, einsum, nn, randn

    class Scores(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(randn(1, 24, 24))

        def forward(self, x: Any) -> Any:
            scores = baddbmm(self.bias.expand(6, 24, 24), x, x.transpose(1, 2)).softmax(-1)
            return einsum("bij,bjk->bik", scores, x)

    return _training(Scores(), [randn(6, 24, 16, requires_grad=True)], _sum)


QUICK: Mapping[str, Callable[[], Any]] = {
    "mlp": _mlp,
    "convolution": lambda: _convolutions("plain"),
}
MODELS: Mapping[str, Callable[[], Any]] = {
    **QUICK,
    "strided convolution": lambda: _convolutions("strided"),
    "depthwise convolution, forward": lambda: _inference("grouped"),
    "dilated convolution": lambda: _convolutions("dilated"),
    "signal": _signal,
    "volume": _volume,
    "transposed convolution": _generator,
    "attention": lambda: _attention(False),
    "causal attention": lambda: _attention(True),
    "batched products": _batched,
}
