"""The kernels of a transformer on one rank: floating-point operations and bytes of each.

Activations are [batch x seq/sequence tokens, hidden]; e is the bytes of an element. Element-wise
kernels count each read and write of a tensor once, a dropout mask as half a pass. Sizes follow
Megatron-LM: column- and row-parallel matrices, one all-reduce after attention and one after the
feed-forward part, the same two in the backward pass.
"""

from dataclasses import dataclass

from paceline.graph.kinds import Axis, Collective, DType
from paceline.graph.schedules import TaskKind
from paceline.imagine.transformer.description import Described, Recompute

ELEMENT_BYTES = {
    DType.FLOAT64: 8,
    DType.FLOAT32: 4,
    DType.FLOAT16: 2,
    DType.BFLOAT16: 2,
    DType.FLOAT8: 1,
}


@dataclass(frozen=True)
class Kernel:
    """One launch on the device, or one collective in its stream."""

    name: str
    flops: int = 0
    size_bytes: int = 0
    collective: Collective = Collective.NONE
    axis: Axis = Axis.NONE
    dtype: DType = DType.FLOAT16


class Kernels:
    """Kernel lists of one job: a layer forward, backward or weights alone; the model's ends."""

    def __init__(self, job: Described) -> None:
        m, d = job.model, job.degrees
        self.job, self.e = job, ELEMENT_BYTES[m.dtype]
        self.tokens = job.training.micro_batch * m.seq // d.sequence
        self.cut = d.tensor
        self.heads = job.training.micro_batch * m.heads // (d.tensor * d.sequence)
        self.hidden, self.seq, self.head = m.hidden, m.seq, m.hidden // m.heads
        self.ffn, self.ffn_tokens = m.ffn_size, self.tokens * m.top_k
        self.token_bytes = self.tokens * m.hidden * self.e
        self.score_bytes = self.heads * m.seq * m.seq * self.e

    def layer(self, work: TaskKind) -> list[Kernel]:
        if work is TaskKind.FORWARD:
            return self._forward()
        if work is TaskKind.WEIGHT:
            return self._weights()
        return [*self._again(), *self._backward()]

    def input(self, work: TaskKind) -> list[Kernel]:
        """The embedding, on the first stage."""
        if work is TaskKind.WEIGHT:
            return []
        look = self._each("embedding", 3 if work is TaskKind.FORWARD else 5, self.token_bytes)
        return [look, *self._reduce("embedding")] if work is TaskKind.FORWARD else [look]

    def output(self, work: TaskKind) -> list[Kernel]:
        """Final norm, logits over the vocabulary, cross-entropy in float32, on the last stage."""
        vocab = self.job.model.vocab // self.cut
        logits = self.tokens * vocab
        if work is TaskKind.FORWARD:
            return [
                self._each("final norm", 2, self.token_bytes),
                self._matrix("logits", self.tokens, vocab, self.hidden),
                self._each("cross entropy", 8, 4 * logits),
            ]
        weights = self._matrix("logits weights", vocab, self.hidden, self.tokens)
        inputs = [
            self._each("cross entropy back", 6, 4 * logits),
            self._matrix("logits input", self.tokens, self.hidden, vocab),
            *self._reduce("logits"),
            self._each("final norm back", 4, self.token_bytes),
        ]
        return {TaskKind.BACKWARD: [*inputs, weights], TaskKind.WEIGHT: [weights]}[work]

    def _forward(self) -> list[Kernel]:
        h, cut = self.hidden, self.cut
        return [
            self._each("norm", 2, self.token_bytes),
            self._matrix("qkv", self.tokens, 3 * h // cut, h),
            *self._exchange("qkv", 3),
            self._each("split heads", 6, self.token_bytes // cut),
            *self._attention(),
            self._each("merge heads", 2, self.token_bytes // cut),
            *self._exchange("context", 1),
            self._matrix("projection", self.tokens, h, h // cut),
            *self._reduce("projection"),
            self._each("dropout add", 3.5, self.token_bytes),
            self._each("norm 2", 2, self.token_bytes),
            *self._dispatch("dispatch"),
            self._matrix("ffn in", self.ffn_tokens, self.ffn // cut, h),
            self._each("gelu", 2, self.ffn_tokens * self.ffn // cut * self.e),
            self._matrix("ffn out", self.ffn_tokens, h, self.ffn // cut),
            *self._dispatch("combine"),
            *self._reduce("ffn out"),
            self._each("dropout add 2", 3.5, self.token_bytes),
        ]

    def _attention(self) -> list[Kernel]:
        b, s, k = self.heads, self.seq, self.head
        if self.job.model.fused_attention:
            flops = 4 * b * s * s * k
            return [Kernel("attention", flops, 4 * b * s * k * self.e, dtype=self.job.model.dtype)]
        return [
            self._matrix("scores", s, s, k, batch=b),
            self._each("softmax", 2, self.score_bytes),
            self._each("dropout", 2.5, self.score_bytes),
            self._matrix("context", s, k, s, batch=b),
        ]

    def _attention_back(self) -> list[Kernel]:
        b, s, k = self.heads, self.seq, self.head
        if self.job.model.fused_attention:
            flops = 10 * b * s * s * k  # the scores once more, then four products
            moved = 8 * b * s * k * self.e
            return [Kernel("attention back", flops, moved, dtype=self.job.model.dtype)]
        return [
            self._matrix("context probs", s, s, k, batch=b),
            self._matrix("context values", s, k, s, batch=b),
            self._each("dropout back", 2.5, self.score_bytes),
            self._each("softmax back", 3, self.score_bytes),
            self._matrix("scores queries", s, k, s, batch=b),
            self._matrix("scores keys", s, k, s, batch=b),
        ]

    def _backward(self) -> list[Kernel]:
        """Gradients of inputs; those of weights beside them unless the schedule splits them off."""
        h, cut, n = self.hidden, self.cut, self.ffn_tokens
        weights = {kernel.name: kernel for kernel in self._weights()}
        split = self._splits_weights
        beside = {name: ([] if split else [kernel]) for name, kernel in weights.items()}
        return [
            self._each("dropout add 2 back", 2.5, self.token_bytes),
            *self._dispatch("combine back"),
            self._matrix("ffn out input", n, self.ffn // cut, h),
            *beside["ffn out weights"],
            self._each("gelu back", 3, n * self.ffn // cut * self.e),
            self._matrix("ffn in input", n, h, self.ffn // cut),
            *self._dispatch("dispatch back"),
            *self._reduce("ffn in back"),
            *beside["ffn in weights"],
            self._each("norm 2 back", 5, self.token_bytes),
            self._each("dropout add back", 2.5, self.token_bytes),
            self._matrix("projection input", self.tokens, h // cut, h),
            *beside["projection weights"],
            *self._exchange("context back", 1),
            self._each("merge heads back", 2, self.token_bytes // cut),
            *self._attention_back(),
            self._each("split heads back", 6, self.token_bytes // cut),
            *self._exchange("qkv back", 3),
            self._matrix("qkv input", self.tokens, h, 3 * h // cut),
            *self._reduce("qkv back"),
            *beside["qkv weights"],
            self._each("norm back", 5, self.token_bytes),
        ]

    def _weights(self) -> list[Kernel]:
        h, cut = self.hidden, self.cut
        return [
            self._matrix("ffn out weights", self.ffn // cut, h, self.ffn_tokens),
            self._matrix("ffn in weights", h, self.ffn // cut, self.ffn_tokens),
            self._matrix("projection weights", h // cut, h, self.tokens),
            self._matrix("qkv weights", h, 3 * h // cut, self.tokens),
        ]

    def _again(self) -> list[Kernel]:
        """What the backward pass recomputes first."""
        kept = self.job.training.recompute
        return {
            Recompute.NONE: [],
            Recompute.SELECTIVE: self._attention(),
            Recompute.FULL: self._forward(),
        }[kept]

    @property
    def _splits_weights(self) -> bool:
        return self.job.training.schedule.value == "zero-bubble"

    def _matrix(self, name: str, rows: int, columns: int, inner: int, batch: int = 1) -> Kernel:
        moved = batch * (rows * inner + inner * columns + rows * columns) * self.e
        flops = 2 * batch * rows * columns * inner
        return Kernel(name, flops, moved, dtype=self.job.model.dtype)

    def _each(self, name: str, passes: float, size_bytes: int) -> Kernel:
        return Kernel(name, 0, round(passes * size_bytes), dtype=self.job.model.dtype)

    def _reduce(self, name: str) -> list[Kernel]:
        """The all-reduce of activations among tensor ranks."""
        if self.cut == 1:
            return []
        return [self._collective(f"{name} all-reduce", Collective.ALL_REDUCE, Axis.TENSOR, 1)]

    def _exchange(self, name: str, tensors: int) -> list[Kernel]:
        """Ulysses: whole heads for pieces of the sequence, and back."""
        if self.job.degrees.sequence == 1:
            return []
        share = tensors / self.cut
        return [self._collective(f"{name} all-to-all", Collective.ALL_TO_ALL, Axis.SEQUENCE, share)]

    def _dispatch(self, name: str) -> list[Kernel]:
        """Tokens to their experts, and back."""
        if self.job.degrees.expert == 1:
            return []
        top_k = self.job.model.top_k
        return [self._collective(f"{name} all-to-all", Collective.ALL_TO_ALL, Axis.EXPERT, top_k)]

    def _collective(self, name: str, collective: Collective, axis: Axis, tensors: float) -> Kernel:
        size = round(tensors * self.token_bytes)
        return Kernel(name, 0, size, collective, axis, self.job.model.dtype)
