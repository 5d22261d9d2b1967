"""A transformer and its training by their dimensions: what `describe` turns into a graph."""

from dataclasses import dataclass
from enum import Enum

from paceline.errors import GraphError
from paceline.graph.kinds import DType
from paceline.graph.schedules import Schedule


class Recompute(Enum):
    """What the backward pass computes again instead of keeping it."""

    NONE = "none"
    SELECTIVE = "selective"  # scores, softmax, dropout and context of attention
    FULL = "full"  # the whole layer


@dataclass(frozen=True)
class Transformer:
    """Dimensions of a decoder. `ffn` is the hidden size of the feed-forward part (0: 4 hidden).

    With experts, each token goes to `top_k` of `experts` feed-forward parts.
    """

    layers: int
    hidden: int
    heads: int
    seq: int
    vocab: int = 51200
    ffn: int = 0
    experts: int = 1
    top_k: int = 1
    fused_attention: bool = False  # one kernel that never writes the scores to memory
    dtype: DType = DType.FLOAT16

    @property
    def ffn_size(self) -> int:
        return self.ffn or 4 * self.hidden

    @property
    def layer_params(self) -> int:
        return 4 * self.hidden**2 + self.experts * 2 * self.hidden * self.ffn_size

    @property
    def embedding_params(self) -> int:
        return self.vocab * self.hidden

    @property
    def params(self) -> int:
        return self.layers * self.layer_params + self.embedding_params


@dataclass(frozen=True)
class Degrees:
    """How many ways each axis is cut. Experts are spread over the data ranks."""

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    sequence: int = 1
    expert: int = 1

    @property
    def world(self) -> int:
        return self.data * self.tensor * self.pipeline * self.sequence


@dataclass(frozen=True)
class Training:
    """How one step is run."""

    global_batch: int
    micro_batch: int = 1
    schedule: Schedule = Schedule.ONE_F_ONE_B
    chunks: int = 1  # model chunks a stage, for the interleaved schedule
    zero_stage: int = 0
    recompute: Recompute = Recompute.NONE
    overlap_gradients: bool = False  # reduce each layer's gradients during the last backward pass


@dataclass(frozen=True)
class Described:
    """A job by its dimensions; refuses what does not divide."""

    model: Transformer
    degrees: Degrees
    training: Training

    def __post_init__(self) -> None:
        m, d, t = self.model, self.degrees, self.training
        _positive(m, "layers", "hidden", "heads", "seq", "vocab", "experts", "top_k")
        _positive(d, "data", "tensor", "pipeline", "sequence", "expert")
        _positive(t, "global_batch", "micro_batch", "chunks")
        _divides("hidden", m.hidden, "heads", m.heads)
        _divides("heads", m.heads, "tensor x sequence", d.tensor * d.sequence)
        _divides("ffn", m.ffn_size, "tensor", d.tensor)
        _divides("vocab", m.vocab, "tensor", d.tensor)
        _divides("seq", m.seq, "sequence", d.sequence)
        _divides("layers", m.layers, "pipeline x chunks", d.pipeline * t.chunks)
        _divides("experts", m.experts, "expert", d.expert)
        _divides("data", d.data, "expert", d.expert)
        _divides("global_batch", t.global_batch, "data x micro_batch", d.data * t.micro_batch)
        self._check_schedule()

    @property
    def microbatches(self) -> int:
        """How many each pipeline works through in a step."""
        return self.training.global_batch // (self.degrees.data * self.training.micro_batch)

    @property
    def layers_a_chunk(self) -> int:
        return self.model.layers // (self.degrees.pipeline * self.training.chunks)

    def _check_schedule(self) -> None:
        t, stages = self.training, self.degrees.pipeline
        interleaved = t.schedule is Schedule.INTERLEAVED
        if t.chunks > 1 and not interleaved:
            raise GraphError(
                f"{t.chunks} chunks a stage need the interleaved schedule; given is "
                f"{t.schedule.value}"
            )
        if interleaved and stages > 1:
            _divides("micro-batches", self.microbatches, "pipeline (interleaved)", stages)
        if not 0 <= t.zero_stage <= 3:
            raise GraphError(f"ZeRO stage {t.zero_stage} does not exist; give 0, 1, 2 or 3")
        if self.model.top_k > self.model.experts:
            raise GraphError(
                f"top_k={self.model.top_k} of {self.model.experts} experts: give at most as many"
            )


def _positive(owner: object, *names: str) -> None:
    for name in names:
        if getattr(owner, name) < 1:
            raise GraphError(f"{name} is {getattr(owner, name)}; give 1 or more")


def _divides(what: str, value: int, by: str, divisor: int) -> None:
    if value % divisor:
        raise GraphError(
            f"{what}={value} is not divisible by {by}={divisor} (remainder {value % divisor}); "
            f"change one of them, for example {what}={value - value % divisor or divisor}"
        )
