"""Attention in one kernel, forward: blocks of 128 queries of one head, each over its keys.

Under a causal mask a block sees half the keys on average and the last one all of them. A block
works through its keys at the share of its processor's peak that the exponentials between the
products leave; queries of heads that share keys find them in the cache.
"""

from typing import Final

import numpy as np

from paceline.cost.fit import Coefficient
from paceline.cost.forecast.method import (
    Estimate,
    ForecastQuestion,
    Method,
    Values,
    from_memory,
    joined,
    logs,
)
from paceline.graph.work import element_bytes

LIBRARIES: Final = (
    "vllm_flash_attn", "vllm_flash_attn_fa2", "vllm_flash_attn_fa3", "vllm_flash_attn_fa4",
    "vllm_flashinfer_trtllmprefill",
)  # fmt: skip
"""Kernels that the learned part tells apart; -1 is any other."""

_COEFFICIENTS: Final = (
    Coefficient("launch_s", 8e-6, 0.7),
    Coefficient("arithmetic", 0.6, 0.3, 1.0),
    Coefficient("memory", 0.75, 0.2, 1.0),
    Coefficient("ends", 100.0, 0.7),
    Coefficient("few_blocks", 0.2, 0.7),
    Coefficient("narrow", 0.8, 0.3),
    Coefficient("cached", 0.5, 0.4, 1.0),
    Coefficient("overlap", 2.5, 0.08),
)
_QUERIES: Final = 128


def _estimate(question: ForecastQuestion, values: Values) -> Estimate:
    dims, sheet = question.dims, question.sheet
    b, s, heads, kv, d = (dims[c] for c in ("b", "s", "heads", "kv_heads", "head_dim"))
    causal, library = dims["causal"], dims["library"]
    size = np.float32(element_bytes(question.dtype))
    tall = np.ceil(s / _QUERIES)
    blocks = b * heads * tall
    share = np.where(causal > 0, (tall + 1) / (2 * tall), 1).astype(np.float32)
    rate = np.float32(sheet.peak(question.dtype) / sheet.units * values["arithmetic"])
    narrow = np.where(d < 100, np.float32(values["narrow"]), np.float32(1))
    a_block = 4 * _QUERIES * d / narrow * (tall * _QUERIES + np.float32(values["ends"])) / rate
    queue = blocks / np.float32(sheet.units)
    few = np.float32(values["few_blocks"])
    mean = a_block * share * np.maximum(queue, 1) * (1 + few / np.maximum(queue, 1))
    longest = np.maximum(mean, a_block)  # the last block of a causal head sees every key
    moved = b * s * d * (2 * heads + 2 * kv) * size
    rate_out = np.float32(sheet.memory_bytes_per_s * values["memory"])
    memory = from_memory(moved, sheet.cache_bytes, values["cached"]) / rate_out
    work = joined(values["overlap"], longest, memory)
    launch = np.full_like(work, values["launch_s"])
    which = (library[:, None] == np.arange(len(LIBRARIES), dtype=np.float32)).astype(np.float32)
    features = [
        logs(b, s, heads, heads / kv, d, work / launch, longest / memory, queue,
             np.ceil(queue) / queue, moved / np.float32(sheet.cache_bytes), tall * _QUERIES / s),
        np.stack([d == 64, d == 128, d == 192, d == 256, d >= 512], axis=1).astype(np.float32),
        which,
    ]  # fmt: skip
    return Estimate(work + launch, np.concatenate(features, axis=1).astype(np.float32))


ATTENTION = Method(
    "attention",
    ("b", "s", "heads", "kv_heads", "head_dim", "causal", "library"),
    _COEFFICIENTS,
    _estimate,
)
