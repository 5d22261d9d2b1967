"""What one rank does for one layer of one micro-batch, there and back, and for the model's ends.

A pass moves bytes once through memory; how many an element-wise part takes depends on who fuses
kernels. Exchanges name the product that they may run beside.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from paceline.graph.kinds import Axis, Collective, DType
from paceline.graph.work import element_bytes
from paceline.imagine.decoder.habits import Fusion, Precision, Selective
from paceline.imagine.decoder.job import DecoderJob
from paceline.imagine.decoder.model import GroupedQuery, Linear
from paceline.imagine.decoder.parts import AxisCollective, Core, Operator, Passes, Product
from paceline.imagine.transformer.description import Recompute


@dataclass(frozen=True)
class _Fused:
    """Bytes per element of the parts that work element by element."""

    norm: float
    norm_back: float
    add: float
    add_back: float
    act: float  # beside reading what the product wrote and writing what the next one reads: 1
    act_back: float
    rope: float
    loss: float  # per logit
    loss_back: float


_FUSED: Final[Mapping[Fusion, _Fused]] = {
    Fusion.LIBRARY: _Fused(4, 6, 6, 4, 1.0, 1.0, 4, 14, 10),
    Fusion.COMPILED: _Fused(4, 8, 6, 4, 1.0, 1.0, 4, 14, 22),
    Fusion.EAGER: _Fused(22, 34, 6, 4, 1.7, 1.8, 32, 14, 22),
}
"""Eager norms widen to float32 and square, average, scale and narrow one after another; rotations
of eager torchtitan go through complex float32. The loss reads 16-bit logits, works in float32."""

_CASTS: Final[Mapping[Precision, float]] = {
    Precision.FP8: 2.0,  # written beside the norm or activation, and once transposed
    Precision.FP8_CURRENT: 6.0,  # read for its maximum, read again, written twice
    Precision.FP8_BLOCK: 4.0,  # read once, written along rows and along columns
    Precision.FP4: 3.0,
}
"""Bytes per element of an operand that is cast to fewer bits."""

_CORRECTION: Final = 12.0
"""Bytes per element by which a piece of a ring joins the result so far, which is read and written
in float32, and the piece read twice."""
_COPIES: Final = 8.0  # bytes per element that is sorted by expert: read and written twice


class Operators:
    """The operator lists of one job."""

    def __init__(self, job: DecoderJob) -> None:
        self.job, self.fused = job, _FUSED[job.recipe.habits.fusion]
        self.precision, self.kept = job.recipe.precision, job.recipe.precision.kept
        self.e = element_bytes(self.kept)
        self.tokens, self.own = job.tokens, job.rank_tokens

    def forward(self, *, routed: bool, full: bool = True) -> list[Operator]:
        """One layer; `full` says whether its attention sees the whole sequence."""
        return [*self._attention(full), *(self._routed() if routed else self._dense())]

    def backward(self, *, routed: bool, full: bool = True, again: bool = True) -> list[Operator]:
        """Both gradients of one layer, and first what is computed again where it is among those."""
        there = self.forward(routed=routed, full=full)
        back = [made for one in reversed(there) for made in self._back(one)]
        first = self._again(there, routed) if again else []
        return [*first, *back, *self._inputs_reduced()]

    def embedding(self) -> list[Operator]:
        size = self.own * self.job.model.hidden * self.e
        shared = self.job.recipe.habits.shares_words
        return [Passes(2 * size, 2), *(self._reduced("") if shared else [])]

    def embedding_back(self) -> list[Operator]:
        return [Passes(3 * self.own * self.job.model.hidden * self.e, 3), *self._gathered("")]

    def head(self) -> list[Operator]:
        """Last norm, logits and loss."""
        logits = Linear("logits", self.job.vocab, self.job.model.hidden)
        elements = self.tokens * self.job.vocab
        return [
            *self._norm(),
            *self._gathered("logits"),
            self._product(logits, self.tokens, wide=True),
            Passes(elements * self.fused.loss, 6),
        ]

    def head_back(self) -> list[Operator]:
        elements = self.tokens * self.job.vocab
        there = self.head()[:-1]
        back = [made for one in reversed(there) for made in self._back(one)]
        return [Passes(elements * self.fused.loss_back, 4), *back]

    def joined(self) -> list[Operator]:
        """What comes before a layer that predicts further on: the embedding of its token and what
        the layer before made, each normalised, through one product."""
        linear = self.job.model.joined.on_rank(self.job.degrees.tensor)
        return [*self.embedding(), *self._norm(), *self._norm(), *self._linear(linear, self.tokens)]

    def joined_back(self) -> list[Operator]:
        there = [one for one in self.joined() if not isinstance(one, AxisCollective)]
        return [made for one in reversed(there) for made in self._back(one)]

    def message_bytes(self) -> float:
        """Activations from stage to stage."""
        cut = self.job.degrees.tensor if self.job.recipe.habits.cuts_messages else 1
        return self.tokens // cut * self.job.model.hidden * self.e

    def _attention(self, full: bool) -> list[Operator]:
        m, t = self.job.model, self.job.degrees.tensor
        linears = m.linears
        found: list[Operator] = [*self._norm(), *self._gathered(linears[0].name)]
        for one in linears[:-1]:
            found += self._linear(one.on_rank(t), self.tokens)
        rotated = self.tokens * m.attention.kept // t
        found += [Passes(rotated * self.fused.rope, 2), *self._ring(), *self._pairs(full)]
        found += self._linear(linears[-1].on_rank(t), self.tokens)
        return [*found, *self._reduced(linears[-1].name), *self._added()]

    def _pairs(self, full: bool) -> list[Operator]:
        a, d, r = self.job.model.attention, self.job.degrees, self.job.recipe
        s, heads = self.job.sequence, a.heads // d.tensor
        if not r.habits.fused_attention:
            return self._scores(self.job.attention_batches, s // d.sequence, s)
        share = 1.0
        if isinstance(a, GroupedQuery) and not full:
            share = min(1.0, 2 * a.window / s)
        kv = max(1, a.kv_heads // d.tensor)
        ranks = d.sequence
        core = Core(r.micro_batch, s // ranks, heads, kv, a.head_dim, a.value_dim, share * ranks)
        if ranks == 1:
            return [core]
        corrected = self.tokens * heads * a.value_dim * _CORRECTION
        return [core, Passes((ranks - 1) * corrected, 3 * (ranks - 1))]

    def _scores(self, b: int, s: int, keys: int) -> list[Operator]:
        """Attention whose scores are written to memory: products, scale, mask, softmax, dropout."""
        d, size = self.job.model.attention.head_dim, b * s * keys * self.e
        return [
            Product("scores", s, keys, d, self.kept, b=b),
            Passes(6.5 * size, 4) if self.job.one_softmax else Passes(22.5 * size, 8),
            Product("context", s, d, keys, self.kept, b=b),
        ]

    def _dense(self) -> list[Operator]:
        return self._feed_forward(self.job.model.ffn)

    def _feed_forward(self, width: int) -> list[Operator]:
        m, t = self.job.model, self.job.degrees.tensor
        first, second = (one.on_rank(t) for one in m.feed_forward(width))
        return [
            *self._norm(),
            *self._gathered("ffn in"),
            *self._linear(first, self.tokens),
            self._activated(self.tokens * width // t),
            *self._linear(second, self.tokens),
            *self._reduced("ffn out"),
            *self._added(),
        ]

    def _routed(self) -> list[Operator]:
        m = self.job.model
        assert m.experts is not None
        rows = self.job.routed_rows
        tokens = self.tokens // self.job.degrees.tensor
        first, second = m.feed_forward(m.experts.ffn)
        sorting = rows * m.hidden * _COPIES
        found: list[Operator] = [*self._norm()]
        if m.experts.shared:
            shared = self._feed_forward(m.experts.shared)
            found += [one for one in shared if not isinstance(one, Passes)]
        found += [
            self._product(self.job.router, tokens, wide=True),
            Passes(8.0 * tokens * m.experts.count, 6),
            Passes(sorting, 6),
            *self._all_to_all(rows),
            *self._experts(first),
            self._activated(rows * m.experts.ffn),
            *self._experts(second),
            *self._all_to_all(rows),
            Passes(sorting, 6),
        ]
        return [*found, *self._added()]

    def _experts(self, linear: Linear) -> list[Operator]:
        """Each expert's product with the rows that fall on it."""
        groups = self.job.expert_rows
        return [one for count, rows in groups for one in self._linear(linear, count * rows, count)]

    def _linear(self, linear: Linear, rows: int, count: int = 1) -> list[Operator]:
        """A product and the cast of its rows; of `count` experts, each of its share of the rows."""
        found: list[Operator] = [self._product(linear, max(1, rows // count), count=count)]
        if self.precision.narrow:
            found.insert(0, Passes(rows * linear.inputs * _CASTS[self.precision], count))
            if self.job.recipe.habits.wide_weights:  # cast again for each pass
                found.insert(0, Passes(count * linear.params * _CASTS[self.precision], count))
        return found

    def _product(self, linear: Linear, rows: int, *, wide: bool = False, count: int = 1) -> Product:
        dtype = self.kept if wide else self.precision.dtype
        block = self.precision is Precision.FP8_BLOCK and not wide
        return Product(linear.name, rows, linear.outputs, linear.inputs, dtype, block, count)

    def _norm(self) -> list[Operator]:
        elements = self.own * self.job.model.hidden
        return [Passes(elements * self.fused.norm * self.e / 2, 1)]

    def _added(self) -> list[Operator]:
        elements = self.own * self.job.model.hidden
        return [Passes(elements * self.fused.add * self.e / 2, 1)]

    def _activated(self, elements: int) -> Passes:
        tensors = 3 if self.job.model.gated else 2
        return Passes(elements * tensors * self.fused.act * self.e, 1)

    def _gathered(self, beside: str) -> list[Operator]:
        """The whole sequence from all tensor ranks."""
        if self.job.degrees.tensor == 1 or not self.job.recipe.habits.sequence_parallel:
            return []
        return [self._tensor(Collective.ALL_GATHER, beside)]

    def _reduced(self, beside: str) -> list[Operator]:
        if self.job.degrees.tensor == 1:
            return []
        shares = self.job.recipe.habits.sequence_parallel
        how = Collective.REDUCE_SCATTER if shares else Collective.ALL_REDUCE
        return [self._tensor(how, beside)]

    def _tensor(self, how: Collective, beside: str) -> AxisCollective:
        size = self.tokens * self.job.model.hidden * self.e
        overlaps = self.job.recipe.habits.overlap_tensor and self.job.model.experts is None
        return AxisCollective(how, Axis.TENSOR, size, beside if overlaps else "")

    def _ring(self) -> list[Operator]:
        """Keys and values of the other context ranks, piece by piece beside attention."""
        ranks = self.job.degrees.sequence
        if ranks == 1:
            return []
        a, t = self.job.model.attention, self.job.degrees.tensor
        elements = self.tokens * max(a.sent // t, 2 * a.head_dim)
        size = (ranks - 1) * elements * self.e
        return [AxisCollective(Collective.POINT_TO_POINT, Axis.SEQUENCE, size, "attention")]

    def _all_to_all(self, rows: int) -> list[Operator]:
        if self.job.degrees.expert == 1:
            return []
        size = rows * self.job.model.hidden * self.e
        experts = self.job.model.experts
        assert experts is not None
        return [AxisCollective(Collective.ALL_TO_ALL, Axis.EXPERT, size, copies=experts.top_k,
                         most_hosts=experts.most_hosts)]  # fmt: skip

    def _light(self, there: list[Operator], routed: bool) -> list[Operator]:
        """Both norms, the experts' activations, and the way up from what latent attention keeps."""
        found: list[Operator] = [*self._norm(), *self._norm()]
        found += [o for o in there if isinstance(o, Product) and o.name.endswith(" up")]
        experts = self.job.model.experts
        if routed and experts is not None:
            found.append(self._activated(self.job.routed_rows * experts.ffn))
        return found

    def _again(self, there: list[Operator], routed: bool) -> list[Operator]:
        """What recomputation runs once more."""
        how = self.job.recipe.recompute
        if how is Recompute.FULL:
            return there
        if how is Recompute.NONE:
            return []
        if self.job.recipe.habits.selective is Selective.LIGHT:
            return self._light(there, routed)
        if self.job.recipe.habits.selective is Selective.ATTENTION:
            names = ("scores", "context")
            return [one for one in there if isinstance(one, Product) and one.name in names]
        products = [one for one in there if isinstance(one, Product)]
        return [*products[1::2], *(one for one in there if isinstance(one, Passes))]

    def _back(self, one: Operator) -> list[Operator]:
        if isinstance(one, Product):
            return self._product_back(one)
        if isinstance(one, Core):
            return [replace(one, back=True)]
        if isinstance(one, Passes):
            return [self._passes_back(one)]
        return self._exchange_back(one)

    def _product_back(self, one: Product) -> list[Operator]:
        """Gradients of the rows, and of the weights; those are added up over micro-batches."""
        data = replace(one, n=one.k, k=one.n)
        weights = replace(
            one, name=f"{one.name} weights", m=one.n, n=one.k, k=one.m,
            added=one.b == 1 and self._adds,
        )  # fmt: skip
        found: list[Operator] = [data, weights]
        if one.dtype in (DType.FLOAT8, DType.FLOAT4):
            found.insert(0, Passes(one.count * one.m * one.n * _CASTS[self.precision], one.count))
        return found

    def _passes_back(self, one: Passes) -> Passes:
        """Gradients come in beside what was kept: about 5 tensors where there were 3."""
        ratio = self.fused.norm_back / self.fused.norm
        return Passes(one.size_bytes * max(1.0, min(ratio, 5 / 3)), one.launches + 1)

    def _exchange_back(self, one: AxisCollective) -> list[Operator]:
        """The other way round; what was gathered is gathered again beside the first gradient."""
        turned = {
            Collective.ALL_GATHER: Collective.REDUCE_SCATTER,
            Collective.REDUCE_SCATTER: Collective.ALL_GATHER,
        }.get(one.collective, one.collective)
        if one.collective is Collective.ALL_REDUCE:
            return []  # its gradient is there; the one of the products' input is added below
        size = one.size_bytes * (2 if one.collective is Collective.POINT_TO_POINT else 1)
        beside = f"{one.beside} weights" if one.axis is Axis.TENSOR and one.beside else one.beside
        found: list[Operator] = [replace(one, collective=turned, size_bytes=size, beside=beside)]
        if one.collective is Collective.ALL_GATHER:
            found.append(AxisCollective(one.collective, one.axis, size, one.beside))
        return found

    @property
    def _adds(self) -> bool:
        """Whether products add to gradients in float32; FSDP2 reduces each micro-batch's."""
        habits = self.job.recipe.habits
        return self.job.microbatches > 1 and habits.gradient_bytes == 4 and not habits.wide_weights

    def _inputs_reduced(self) -> list[Operator]:
        """Without sequence parallelism gradients of both parts' inputs are all-reduced."""
        if self.job.degrees.tensor == 1 or self.job.recipe.habits.sequence_parallel:
            return []
        return [self._tensor(Collective.ALL_REDUCE, "")] * 2
