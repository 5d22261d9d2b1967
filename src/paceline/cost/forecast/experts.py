"""Fused experts: tokens sorted by expert, two products per expert, and what is read for them.

A rank holds experts / ep of them, each cut in tp parts. `tokens` x `top_k` / `ep` rows would fall
on it, but measured tables show more the further experts are spread: the rank's rows grow with a
power of `ep` (`uneven`), and under a power law of routing the more, which the learned part knows.
The weights of experts with at least one row are read; few rows make it a matter of memory alone.

Tables are of kernels for inference: of an H100's peak in bfloat16 the fused Triton kernel reaches
12 % in the median shape with 512 rows for each expert or more, and 62 % at best. A grouped product
of torch's (`torch._grouped_mm`), of which no table tells, is asked for as a third of such experts.
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
    "sglang_fused_moe_triton", "sglang_flashinfer_cutlass_moe", "sglang_flashinfer_trtllm_moe",
)  # fmt: skip

_COEFFICIENTS: Final = (
    Coefficient("launch_s", 25e-6, 0.7),
    Coefficient("arithmetic", 0.5, 0.3, 1.0),
    Coefficient("memory", 0.7, 0.2, 1.0),
    Coefficient("rows_a_tile", 64.0, 0.4),
    Coefficient("sorting_s", 2e-9, 0.8),
    Coefficient("cached", 0.5, 0.4, 1.0),
    Coefficient("overlap", 2.0, 0.3),
    Coefficient("uneven", 0.4, 0.5, 1.0),
)


def _estimate(question: ForecastQuestion, values: Values) -> Estimate:
    dims, sheet = question.dims, question.sheet
    tokens, hidden, inner = dims["tokens"], dims["hidden"], dims["intermediate"] / dims["tp"]
    top_k, experts, ep, skew = dims["top_k"], dims["experts"], dims["ep"], dims["skew"]
    size = np.float32(element_bytes(question.dtype))
    held = np.maximum(experts / ep, 1)
    rows = np.maximum(tokens * top_k / ep ** np.float32(1 - values["uneven"]), 1)
    rows = np.minimum(rows, tokens * np.minimum(top_k, held))
    busy = held * (1 - np.exp(-rows / held))
    tile = np.float32(values["rows_a_tile"])
    padded = busy * np.ceil(rows / busy / tile) * tile
    rate = np.float32(sheet.peak(question.dtype) * values["arithmetic"])
    arithmetic = 6 * padded * hidden * inner / rate
    blocks = busy * np.ceil(rows / busy / tile) * np.ceil(2 * inner / 128)
    queue = blocks / np.float32(sheet.units)
    arithmetic = arithmetic * np.maximum(1, 1 / queue)
    weights = 3 * busy * hidden * inner * size
    moved = weights + rows * (2 * hidden + 3 * inner) * size + rows * hidden * 2
    rate_out = np.float32(sheet.memory_bytes_per_s * values["memory"])
    memory = from_memory(moved, sheet.cache_bytes, values["cached"]) / rate_out
    work = joined(values["overlap"], arithmetic, memory)
    work = work + tokens * top_k * np.float32(values["sorting_s"])
    launch = np.full_like(work, values["launch_s"])
    which = (dims["library"][:, None] == np.arange(len(LIBRARIES), dtype=np.float32)).astype(
        np.float32
    )
    features = [
        logs(tokens, hidden, inner, top_k, experts, ep, held, rows / held, work / launch,
             arithmetic / memory, queue, moved / np.float32(sheet.cache_bytes)),
        np.stack([skew, skew > 0, (skew > 0) * np.log(ep), skew * np.log(experts)], axis=1),
        which,
    ]  # fmt: skip
    return Estimate(work + launch, np.concatenate(features, axis=1).astype(np.float32))


EXPERTS = Method(
    "experts",
    ("tokens", "hidden", "intermediate", "top_k", "experts", "tp", "ep", "skew", "library"),
    _COEFFICIENTS,
    _estimate,
)
