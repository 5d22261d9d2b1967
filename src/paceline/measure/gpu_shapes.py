"""What is measured of a GPU's kernels in under a minute, as rows of the tables that fits read.

Shapes from the smallest kernels to those that fill the largest devices; in bfloat16, which training
runs in. What is timed is the kernel on the device alone, as traces tell it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

Cells = Mapping[str, int | str]

TYPE: Final = "bfloat16"


@dataclass(frozen=True)
class Shape:
    """One row of a table, yet without its time."""

    table: str
    cells: Cells


_SQUARES: Final = (256, 512, 1024, 1536, 2048, 3072, 4096, 8192)
_LAYERS: Final = (  # tokens, results, features
    (16, 4096, 4096), (128, 4096, 11008), (512, 3072, 768), (2048, 1024, 4096),
    (4096, 12288, 4096), (4096, 4096, 16384), (8192, 5120, 1280), (2048, 50304, 1024),
)  # fmt: skip
_BATCHES: Final = ((16, 128, 64, 128), (96, 512, 64, 512), (32, 1024, 128, 1024), (8, 64, 64, 64))
_CORES: Final = (
    (1, 512, 8, 64), (8, 512, 16, 64), (4, 1024, 16, 128), (2, 2048, 32, 128), (1, 8192, 32, 128),
)  # fmt: skip
_COUNTS: Final = tuple(4**power for power in range(7, 15))
_ROWS: Final = ((128, 1024), (2048, 768), (8192, 1024), (8192, 4096), (32768, 2048))
_IMAGES: Final = (  # batch, channels in and out, kernel, side, stride
    (32, 3, 64, 7, 224, 2), (32, 64, 64, 3, 56, 1), (32, 128, 128, 3, 28, 1),
    (32, 256, 1024, 1, 14, 1), (64, 512, 512, 3, 7, 1),
)  # fmt: skip


def shapes() -> Iterator[Shape]:
    for m, n, k in (*((size, size, size) for size in _SQUARES), *_LAYERS):
        yield Shape("gemm", {"dtype": TYPE, "m": m, "n": n, "k": k})
    for b, m, n, k in _BATCHES:
        yield Shape("matrix", {"op": "bmm", "dtype": TYPE, "b": b, "m": m, "n": n, "k": k})
    for b, s, heads, wide in _CORES:
        sizes = {"b": b, "s": s, "heads": heads, "kv_heads": heads, "head_dim": wide}
        yield Shape("attention", {"dtype": TYPE, **sizes, "kernel": "torch"})
    for op in ("add", "gelu"):
        for count in _COUNTS:
            yield Shape("vector", {"op": op, "dtype": TYPE, "b": count // 1024, "k": 1024})
    for op in ("copy", "relaid"):
        for count in _COUNTS:
            yield Shape("vector", {"op": op, "dtype": TYPE, "b": count // 1024, "k": 1024})
    for op in ("softmax", "ln"):
        for b, k in _ROWS:
            yield Shape("vector", {"op": op, "dtype": TYPE, "b": b, "k": k})
    for b, channels, out, kernel, side, stride in _IMAGES:
        sizes = {"b": b, "in_channels": channels, "out_channels": out, "kernel_size": kernel,
                 "input_size": side, "stride": stride, "padding": kernel // 2}  # fmt: skip
        yield Shape("convolution", {"op": "conv", "dtype": TYPE, **sizes})
