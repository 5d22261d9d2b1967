"""Attention in one kernel: torch's back ends, and flash-attention by its operators' names."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from paceline.graph.work import Attention, Way, Work, attention
from paceline.trace.shapes.inputs import Inputs, ShapeError

_MASKED: Final = frozenset({"True", "1", "2"})
"""A flag, or the custom mask of memory-efficient attention: causal from either corner."""


@dataclass(frozen=True)
class _Layout:
    """Where queries, keys and values stand, and how their dimensions are ordered."""

    query: int = 0
    heads_first: bool = True  # batch, heads, sequence, width; else batch, sequence, heads, width
    causal: tuple[int, ...] = ()  # where the flag may stand; none: never causal
    way: Way = Way.FORWARD
    longest: tuple[int, int] | None = None  # places of the longest sequences of packed ones


def _attention(inputs: Inputs, layout: _Layout) -> Work:
    query, key, value = (inputs.tensor(layout.query + i) for i in range(3))
    causal = any(inputs.value(place) in _MASKED for place in layout.causal)
    if len(query.shape) == 3:
        return attention(_packed(inputs, layout, causal), query.dtype, layout.way)
    if not len(query.shape) == len(key.shape) == len(value.shape) == 4:
        raise ShapeError(f"{query.shape}, {key.shape}, {value.shape}")
    order = (1, 2) if layout.heads_first else (2, 1)
    dims = Attention(
        b=query.shape[0],
        heads=query.shape[order[0]],
        kv_heads=key.shape[order[0]],
        s=query.shape[order[1]],
        s_kv=key.shape[order[1]],
        d=query.shape[-1],
        d_v=value.shape[-1],
        causal=causal,
    )
    return attention(dims, query.dtype, layout.way)


def _packed(inputs: Inputs, layout: _Layout, causal: bool) -> Attention:
    """Sequences one behind the other: as many of the longest as fill the rows."""
    query, key, value = (inputs.tensor(layout.query + i) for i in range(3))
    s, s_kv = query.shape[0], key.shape[0]
    batch = 1
    if layout.longest is not None:
        longest = [inputs.value(place) for place in layout.longest]
        if not all(text.isdigit() and int(text) for text in longest):
            raise ShapeError("packed sequences of unknown length")
        s, s_kv = int(longest[0]), int(longest[1])
        batch = max(1, round(query.shape[0] / s))
    return Attention(
        b=batch,
        heads=query.shape[1],
        kv_heads=key.shape[1],
        s=s,
        s_kv=s_kv,
        d=query.shape[2],
        d_v=value.shape[2],
        causal=causal,
    )


def _packed_qkv(inputs: Inputs, way: Way) -> Work:
    """FlashAttnQKVPackedFunc: batch, sequence, 3, heads, width."""
    whole = inputs.tensor(0 if way is Way.FORWARD else 1)
    if len(whole.shape) != 5 or whole.shape[2] != 3:
        raise ShapeError(f"{whole.shape}")
    b, s, _, heads, d = whole.shape
    return attention(Attention(b, heads, heads, s, s, d, d), whole.dtype, way)


def _of(**layout: object) -> Callable[[Inputs], Work]:
    return partial(_attention, layout=_Layout(**layout))  # type: ignore[arg-type]


_BACK: Final = Way.BACKWARD

RULES: Final[Mapping[str, Callable[[Inputs], Work]]] = {
    "aten::scaled_dot_product_attention": _of(causal=(5,)),
    "aten::_scaled_dot_product_flash_attention": _of(causal=(4,)),
    "aten::_scaled_dot_product_flash_attention_for_cpu": _of(causal=(4,)),
    "aten::_scaled_dot_product_efficient_attention": _of(causal=(6,)),
    "aten::_scaled_dot_product_cudnn_attention": _of(causal=(6,)),
    "aten::_scaled_dot_product_fused_attention_overrideable": _of(causal=(5,)),
    "aten::_scaled_dot_product_flash_attention_backward": _of(query=1, causal=(11,), way=_BACK),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _of(
        query=1, causal=(7,), way=_BACK
    ),
    "aten::_scaled_dot_product_efficient_attention_backward": _of(query=1, causal=(11,), way=_BACK),
    "aten::_scaled_dot_product_cudnn_attention_backward": _of(query=1, causal=(14,), way=_BACK),
    "aten::_flash_attention_forward": _of(heads_first=False, causal=(8,), longest=(5, 6)),
    "aten::_flash_attention_backward": _of(
        query=1, heads_first=False, causal=(11,), way=_BACK, longest=(8, 9)
    ),
    "aten::_efficient_attention_forward": _of(heads_first=False, causal=(9,)),
    "aten::_efficient_attention_backward": _of(query=1, heads_first=False, causal=(14,), way=_BACK),
    "aten::_cudnn_attention_forward": _of(causal=(10,)),
    "aten::_cudnn_attention_backward": _of(query=1, causal=(14,), way=_BACK),
    "flash_attn::_flash_attn_forward": _of(heads_first=False, causal=(5,)),
    "flash_attn::_flash_attn_backward": _of(query=1, heads_first=False, causal=(11,), way=_BACK),
    "flash_attn::_flash_attn_varlen_forward": _of(heads_first=False, causal=(9,), longest=(5, 6)),
    "flash_attn::_flash_attn_varlen_backward": _of(
        query=1, heads_first=False, causal=(15,), way=_BACK, longest=(11, 12)
    ),
    "FlashAttnFunc": _of(heads_first=False, causal=(5,)),
    "flash_attn_3::fwd": _of(heads_first=False),
    "FlashAttnQKVPackedFunc": partial(_packed_qkv, way=Way.FORWARD),
}
