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
    starts: int | None = None  # place of where packed sequences of queries start, keys' behind it
    pages: int | None = None  # place of a table of pages, by which keys are not in order


def _attention(inputs: Inputs, layout: _Layout) -> Work:
    query, key, value = (inputs.tensor(layout.query + i) for i in range(3))
    if layout.pages is not None and inputs.optional(layout.pages):
        raise ShapeError("keys in pages")
    causal = any(inputs.value(place) in _MASKED for place in layout.causal)
    if len(query.shape) == 3 or _is_packed(inputs, layout):
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


def _is_packed(inputs: Inputs, layout: _Layout) -> bool:
    """One batch that holds all sequences, and where they start."""
    told = layout.starts is not None and inputs.optional(layout.starts) is not None
    return told and inputs.tensor(layout.query).shape[0] == 1


def _packed(inputs: Inputs, layout: _Layout, causal: bool) -> Attention:
    """Sequences one behind the other: as many of the longest as fill the rows, or, where nobody
    tells the longest, all of them of one length."""
    shapes = [inputs.tensor(layout.query + i).shape[-3:] for i in range(3)]
    (rows, heads, d), (kv_rows, kv_heads, _), (_, _, d_v) = shapes
    batch, s, s_kv = 1, rows, kv_rows
    if layout.longest is not None and all(_is_length(inputs, each) for each in layout.longest):
        s, s_kv = (int(inputs.value(place)) for place in layout.longest)
        batch = max(1, round(rows / s))
    elif layout.starts is not None:
        batch = max(1, inputs.tensor(layout.starts).count - 1)
        s, s_kv = rows // batch, kv_rows // batch
    elif layout.longest is not None:
        raise ShapeError("packed sequences of unknown length")
    return Attention(batch, heads, kv_heads, s, s_kv, d, d_v, causal)


def _is_length(inputs: Inputs, place: int) -> bool:
    text = inputs.value(place)
    return text.isdigit() and int(text) > 0


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

_CUTLASS: Final = _of(heads_first=False, causal=(9,), longest=(6, 7), starts=4)
_CUTLASS_BACK: Final = _of(
    query=1, heads_first=False, causal=(14,), way=_BACK, longest=(8, 9), starts=6
)
"""Memory-efficient attention, of torch and of xformers, from which it came."""
_FLASH_3: Final = _of(heads_first=False, causal=(24,), longest=(12, 13), starts=7, pages=14)

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
    "aten::_efficient_attention_forward": _CUTLASS,
    "aten::_efficient_attention_backward": _CUTLASS_BACK,
    "aten::_cudnn_attention_forward": _of(causal=(10,)),
    "aten::_cudnn_attention_backward": _of(query=1, causal=(14,), way=_BACK),
    "flash_attn::_flash_attn_forward": _of(heads_first=False, causal=(5,)),
    "flash_attn::_flash_attn_backward": _of(query=1, heads_first=False, causal=(11,), way=_BACK),
    "flash_attn::_flash_attn_varlen_forward": _of(
        heads_first=False, causal=(9,), longest=(5, 6), pages=15
    ),
    "flash_attn::_flash_attn_varlen_backward": _of(
        query=1, heads_first=False, causal=(15,), way=_BACK, longest=(11, 12)
    ),
    "FlashAttnFunc": _of(heads_first=False, causal=(5,)),
    "FlashAttnVarlenFunc": _of(heads_first=False, causal=(9,), longest=(5, 6), starts=3),
    "flash_attn_3::fwd": _FLASH_3,
    "flash_attn_3::_flash_attn_forward": _FLASH_3,
    "_vllm_fa3_C::fwd": _FLASH_3,
    "flash_attn_3::bwd": _of(
        query=1, heads_first=False, causal=(16,), way=_BACK, longest=(13, 14), starts=9
    ),
    "flash_attn_3::_flash_attn_backward": _of(
        query=1, heads_first=False, causal=(16,), way=_BACK, longest=(10, 11), starts=6
    ),
    "xformers::efficient_attention_forward_cutlass": _CUTLASS,
    "xformers::efficient_attention_backward_cutlass": _CUTLASS_BACK,
    "xformers::efficient_attention_forward_ck": _of(
        heads_first=False, causal=(9,), longest=(6, 6), starts=4
    ),
    "xformers::efficient_attention_backward_ck": _of(
        query=1, heads_first=False, causal=(15,), way=_BACK, longest=(7, 8), starts=5
    ),
    "xformers_flash::flash_fwd": _of(heads_first=False, causal=(9, 10), longest=(6, 7), starts=3),
    "xformers_flash::flash_bwd": _of(
        query=2, heads_first=False, causal=(13,), way=_BACK, longest=(9, 10), starts=7
    ),
    "FlashAttnQKVPackedFunc": partial(_packed_qkv, way=Way.FORWARD),
}
