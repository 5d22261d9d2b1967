"""The dimensions of a decoder, from the products and the attention that one of its blocks runs.

Queries, keys and values come before attention; the projection and a plain or gated feed-forward
part behind it. What is built otherwise is refused with what was found.

Wrong where blocks hold experts, which run as many small products (describe the model in a file),
and where attention is not causal, whose arithmetic is then taken for half of what it is: times that
were recorded hold it in whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from paceline.graph import NONE, DType, Graph
from paceline.graph.graph import Int64
from paceline.graph.work import Attention, Family, Matrix, Way, Work
from paceline.imagine.decoder import Decoder, GroupedQuery, Precision
from paceline.place.hybrid.recorded.blocks import Blocks, forward_rows
from paceline.place.operators.problem import PlacementError

_PRECISIONS: Final = {
    DType.FLOAT32: Precision.FP32,
    DType.TFLOAT32: Precision.FP32,
    DType.FLOAT16: Precision.FP16,
    DType.BFLOAT16: Precision.BF16,
}


@dataclass(frozen=True)
class Described:
    """A model with how it was run: `passes` forward passes a step of `micro_batch` sequences."""

    model: Decoder
    micro_batch: int
    passes: int
    precision: Precision
    fused_attention: bool


@dataclass(frozen=True)
class _Block:
    """One block's products, in order, and its attention."""

    before: tuple[Matrix, ...]
    behind: tuple[Matrix, ...]
    attention: Attention
    passes: int
    dtype: DType
    fused: bool


def described(graph: Graph, blocks: Blocks, name: str) -> Described:
    """The model of a graph with these blocks."""
    calls = _calls(graph, _rows_of(graph, blocks, blocks.numbers[0]))
    block = _fused(calls) or _written(calls)
    if block is None:
        raise _unlike(blocks, "no attention between two products")
    ffn, gated = _feed_forward(block, blocks)
    a, hidden = block.attention, block.before[0].k
    vocab = _vocab(graph, blocks, hidden)
    model = Decoder(
        name, len(blocks.numbers), hidden, vocab, GroupedQuery(a.heads, a.kv_heads, a.d), ffn,
        gated=gated, tied=_tied(graph, vocab, hidden), sequence=a.s,
        source=f"recorded blocks {blocks}",
    )  # fmt: skip
    if block.dtype not in _PRECISIONS:
        raise _unlike(blocks, f"products in {block.dtype.name.lower()}")
    return Described(model, a.b, block.passes, _PRECISIONS[block.dtype], block.fused)


def _rows_of(graph: Graph, blocks: Blocks, number: str) -> Int64:
    one = Blocks(blocks.prefix, (number,))
    held = np.array([one.holds(name) for name in graph.names], np.bool_)
    rows = forward_rows(graph)
    return rows[held[graph.ops.layer[rows]]]


def _calls(graph: Graph, rows: Int64) -> list[Work]:
    """Products and attention, once each: a call may be in several pieces that share its work, each
    rounded to a whole operation."""
    found: list[Work] = []
    last: Work | None = None
    done = 0
    for row in rows.tolist():
        at = int(graph.ops.work[row])
        work = graph.works[at].work if at != NONE else None
        if work is None or work.way is not Way.FORWARD or work.family not in _TOLD:
            continue
        if work != last or done >= work.flops:
            found.append(work)
            last, done = work, 0
        done += int(graph.ops.flops[row]) + 1
    return found


_TOLD: Final = (Family.MATRIX, Family.ATTENTION)


def _fused(calls: Sequence[Work]) -> _Block | None:
    """Attention by one kernel."""
    cores = [at for at, work in enumerate(calls) if work.family is Family.ATTENTION]
    if not cores or len(calls) % len(cores):
        return None
    attention = calls[cores[0]].dims
    assert isinstance(attention, Attention)
    before, behind = calls[: cores[0]], calls[cores[0] + 1 : len(calls) // len(cores)]
    return _block(before, behind, attention, len(cores))


def _written(calls: Sequence[Work]) -> _Block | None:
    """Attention whose scores are written: two products of many small matrices, one after the
    other."""
    many = [
        at for at, work in enumerate(calls) if isinstance(work.dims, Matrix) and work.dims.b > 1
    ]
    if len(many) < 2 or not many[0] or len(calls) % (len(many) // 2):
        return None
    scores, rows = calls[many[0]].dims, calls[0].dims
    assert isinstance(scores, Matrix)
    assert isinstance(rows, Matrix)
    sequences = max(1, rows.m // scores.m)
    heads = scores.b // sequences
    before, passes = calls[: many[0]], len(many) // 2
    behind = calls[many[1] + 1 : len(calls) // passes]
    width = sum(work.dims.n for work in before if isinstance(work.dims, Matrix))
    kv_heads = max(1, (width // scores.k - heads) // 2)
    attention = Attention(sequences, heads, kv_heads, scores.m, scores.n, scores.k, scores.k)
    return _block(before, behind, attention, passes, fused=False)


def _block(
    before: Sequence[Work],
    behind: Sequence[Work],
    attention: Attention,
    passes: int,
    fused: bool = True,
) -> _Block | None:
    if not before or not behind:
        return None
    sides = [
        tuple(work.dims for work in side if isinstance(work.dims, Matrix))
        for side in (before, behind)
    ]
    return _Block(sides[0], sides[1], attention, passes, before[0].dtype, fused)


def _feed_forward(block: _Block, blocks: Blocks) -> tuple[int, bool]:
    """Its width and whether it is gated, once all products are what a decoder's are."""
    a, hidden = block.attention, block.before[0].k
    kept = (a.heads + 2 * a.kv_heads) * a.d
    if sum(each.n for each in block.before) != kept or any(p.k != hidden for p in block.before):
        shown = ", ".join(f"{each.k} to {each.n}" for each in block.before)
        raise _unlike(blocks, f"{shown} before attention where queries, keys and values are {kept}")
    projection, *rest = block.behind
    if (projection.n, projection.k) != (hidden, a.heads * a.d_v) or len(rest) < 2:
        raise _unlike(blocks, f"{len(block.behind)} products behind attention")
    *into, out = rest
    inner, width = sum(each.n for each in into), out.k
    if out.n != hidden or any(p.k != hidden for p in into) or inner not in (width, 2 * width):
        raise _unlike(blocks, f"a feed-forward part from {hidden} over {inner} and {width}")
    return width, inner == 2 * width


def _vocab(graph: Graph, blocks: Blocks, hidden: int) -> int:
    """What the last product behind the blocks makes."""
    ops, rows = graph.ops, forward_rows(graph)
    held = np.array([blocks.holds(name) for name in graph.names], np.bool_)[ops.layer[rows]]
    behind = rows[np.flatnonzero(held)[-1] + 1 :]
    made = [w.dims for w in _calls(graph, behind) if isinstance(w.dims, Matrix)]
    ends = [dims.n for dims in made if dims.k == hidden]
    if not ends:
        raise _unlike(blocks, f"no product from {hidden} behind them, which would make words")
    return ends[-1]


def _tied(graph: Graph, vocab: int, hidden: int) -> bool:
    """One weight of words is the embedding's and the output's; as two where none is known."""
    words = [one for one in graph.facts.parameters if one.shape == (vocab, hidden)]
    return len(words) == 1


def _unlike(blocks: Blocks, found: str) -> PlacementError:
    return PlacementError(
        f"blocks {blocks} are no decoder's, "
        f"which a plan over tensor ranks needs: {found}. Describe the model in a file "
        "(docs/how/plan.md), or plan stages of any layers with `paceline pipeline RUN`"
    )
