"""The operators of a language model's forward pass as eager PyTorch runs them, in their order.

Scores are written to memory, scaled and masked, and go through softmax; in training every dropout
writes its mask. Experts run one after another, each on its capacity of tokens (Switch).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from paceline.graph.kinds import DType
from paceline.graph.work import (
    Elements,
    Matrix,
    Rows,
    Work,
    copied,
    embedding,
    loss,
    matrix,
    norm,
    pointwise,
    reduction,
    softmax,
)
from paceline.imagine.language.config import Language


@dataclass(frozen=True)
class Pass:
    """How much a forward pass works on. `cut` ways are heads and feed-forward parts shared out."""

    batch: int
    seq: int
    training: bool = False
    cut: int = 1
    dtype: DType = DType.FLOAT32

    @property
    def tokens(self) -> int:
        return self.batch * self.seq


def forward(model: Language, run: Pass) -> list[Work]:
    """All operators of the model, in order."""
    found = [*_embedded(model, run)]
    for at in range(model.layers):
        found += layer(model, run, at)
    for at in range(model.decoder):
        found += layer(model, run, at, crossed=True)
    if model.decoder:
        found += _embedded(model, run)
    return [*found, *ending(model, run)]


def layer(model: Language, run: Pass, at: int, *, crossed: bool = False) -> list[Work]:
    """One layer; a decoder's has cross attention as well."""
    found = [*_attention(model, run)]
    if crossed:
        found += _attention(model, run)
    if model.expert_every and at % model.expert_every == model.expert_every - 1:
        return [*found, *_routed(model, run)]
    return [*found, *_feed_forward(model, run, run.tokens), *_closed(model, run)]


def ending(model: Language, run: Pass) -> list[Work]:
    """The last norm; logits where the model has a head, and in training the loss."""
    found = [*_norm(model, run)]
    if model.head or run.training:
        found.append(_linear(run, run.tokens, model.vocab, model.hidden))
    if run.training:
        logits = Rows(run.tokens, model.vocab)
        found += [copied(run.tokens * model.vocab, run.dtype), softmax(logits, run.dtype)]
        found.append(loss(logits, run.dtype))
    return found


def _embedded(model: Language, run: Pass) -> Iterator[Work]:
    rows = Rows(run.tokens, model.hidden)
    yield embedding(rows, run.dtype)
    yield embedding(rows, run.dtype)
    yield _each(run, run.tokens * model.hidden, 2)
    yield from _dropped(run, run.tokens * model.hidden)


def _attention(model: Language, run: Pass) -> Iterator[Work]:
    inner, heads = model.inner // run.cut, run.batch * model.heads // run.cut
    yield from _norm(model, run)
    if model.joined_qkv:
        yield _linear(run, run.tokens, 3 * inner, model.hidden)
    else:
        for _ in range(3):
            yield _linear(run, run.tokens, inner, model.hidden)
    for _ in range(3):
        yield copied(run.tokens * inner, run.dtype)  # heads before tokens
    scores = heads * run.seq * run.seq
    yield matrix(Matrix(heads, run.seq, run.seq, model.head_dim), run.dtype)
    for reads in model.passes:
        yield _each(run, scores, reads)
    yield softmax(Rows(heads * run.seq, run.seq), run.dtype)
    yield from _dropped(run, scores)
    yield matrix(Matrix(heads, run.seq, model.head_dim, run.seq), run.dtype)
    yield copied(run.tokens * inner, run.dtype)
    yield _linear(run, run.tokens, model.hidden, inner)
    yield from _closed(model, run)


def _feed_forward(model: Language, run: Pass, tokens: int, normed: bool = True) -> Iterator[Work]:
    ffn = model.ffn // run.cut
    if normed:
        yield from _norm(model, run)
    yield _linear(run, tokens, ffn, model.hidden)
    for reads in model.activation.reads:
        yield _each(run, tokens * ffn, reads)
    yield _linear(run, tokens, model.hidden, ffn)


def _routed(model: Language, run: Pass) -> Iterator[Work]:
    """Each expert on its share of the tokens, picked and put back one after another."""
    yield from _norm(model, run)
    yield _linear(run, run.tokens, model.experts, model.hidden)
    yield softmax(Rows(run.tokens, model.experts), run.dtype)
    share = max(1, run.tokens // model.experts)
    if model.capacity:
        share = min(share, run.batch * model.capacity)
    for _ in range(model.experts):
        yield copied(share * model.hidden, run.dtype)
        yield from _feed_forward(model, run, share, normed=False)
        yield copied(share * model.hidden, run.dtype)
    yield _each(run, run.tokens * model.hidden, 1)
    yield from _closed(model, run)


def _closed(model: Language, run: Pass) -> Iterator[Work]:
    yield from _dropped(run, run.tokens * model.hidden)
    yield _each(run, run.tokens * model.hidden, 2)


def _norm(model: Language, run: Pass) -> Iterator[Work]:
    rows, count = Rows(run.tokens, model.hidden), run.tokens * model.hidden
    if not model.root_norm:
        yield norm(rows, run.dtype)
        return
    yield _each(run, count, 1)  # squares
    yield reduction(rows, run.dtype)
    yield _each(run, count, 1)
    yield _each(run, count, 1)


def _linear(run: Pass, m: int, n: int, k: int) -> Work:
    return matrix(Matrix(1, m, n, k), run.dtype)


def _each(run: Pass, count: int, inputs: int) -> Work:
    return pointwise(Elements(count, inputs), run.dtype)


def _dropped(run: Pass, count: int) -> Iterator[Work]:
    if run.training:
        yield pointwise(Elements(count), run.dtype, out=None)
