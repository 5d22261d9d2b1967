"""`DecoderJob`: a model, how ranks share it, and how a step is run; refuses what cannot be.

Ranks are laid tensor first, then context, then data, then pipeline. Experts are spread over the
tensor, context and data ranks of a stage together, as Megatron-Core does it.
"""

from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from itertools import pairwise

from paceline.errors import GraphError
from paceline.graph.schedules import Schedule
from paceline.imagine.decoder.habits import MEGATRON, Habits, Precision
from paceline.imagine.decoder.model import Cut, Decoder, Linear
from paceline.imagine.transformer.description import Degrees, Recompute

_GROUPS = 4  # of experts with about equal load on a rank
_MOST_KEYS = 2048  # of Megatron-LM's fused softmax


class Sharding(Enum):
    """What the data ranks share out of weights, gradients and optimizer state."""

    NONE = "none"  # DDP: every rank has everything
    OPTIMIZER = "optimizer"  # ZeRO 1, Megatron's distributed optimizer
    GRADIENTS = "gradients"  # ZeRO 2
    FULL = "full"  # ZeRO 3, FSDP2: weights gathered for each pass, in a pipeline once a step
    HYBRID = "hybrid"  # as full within a host, replicated between hosts


@dataclass(frozen=True)
class Recipe:
    """How one step is run. `sequence` 0 is the model's own. Full recomputation is for the first
    `recomputed` layers of each chunk; 0: all."""

    global_batch: int
    micro_batch: int = 1
    sequence: int = 0
    precision: Precision = Precision.BF16
    schedule: Schedule = Schedule.ONE_F_ONE_B
    chunks: int = 1
    sharding: Sharding = Sharding.OPTIMIZER
    recompute: Recompute = Recompute.NONE
    recomputed: int = 0
    habits: Habits = field(default=MEGATRON)


@dataclass(frozen=True)
class Content:
    """What a chunk holds: layers of either kind, those of them that are recomputed, and the model's
    ends."""

    dense: int
    routed: int
    first: bool
    last: bool
    dense_again: int = 0
    routed_again: int = 0


@dataclass(frozen=True)
class WeightShare:
    """A set of weights on one rank: how many, over how many ranks they are replicated, and how far
    those lie apart."""

    params: int
    replicas: int
    stride: int


@dataclass(frozen=True)
class DecoderJob:
    """`degrees.sequence` is context parallelism; `degrees.data` counts replicas of the batch."""

    model: Decoder
    degrees: Degrees
    recipe: Recipe

    def __post_init__(self) -> None:
        m, d, r = self.model, self.degrees, self.recipe
        for owner, names in (
            (d, ("data", "tensor", "pipeline", "sequence", "expert")),
            (r, ("global_batch", "micro_batch", "chunks")),
        ):
            for name in names:
                if getattr(owner, name) < 1:
                    raise GraphError(f"{name} is {getattr(owner, name)}; give 1 or more")
        _divides("heads", m.attention.heads, "tensor", d.tensor)
        _divides("vocabulary", _padded(m.vocab), "tensor", d.tensor)
        self._check_tokens()
        self._check_experts()
        self._check_schedule()
        self._check_recompute()
        for linear in (*m.linears, *m.feed_forward(m.ffn)):
            cut = linear.outputs if linear.cut is Cut.COLUMNS else linear.inputs
            if linear.cut is not Cut.WHOLE:
                _divides(f"the width of {linear.name}", cut, "tensor", d.tensor)

    @property
    def sequence(self) -> int:
        return self.recipe.sequence or self.model.sequence

    @property
    def microbatches(self) -> int:
        """How many each pipeline works through in a step."""
        return self.recipe.global_batch // (self.degrees.data * self.recipe.micro_batch)

    @property
    def tokens(self) -> int:
        """Of one micro-batch on one rank, before tensor ranks share them."""
        return self.recipe.micro_batch * self.sequence // self.degrees.sequence

    @property
    def rank_tokens(self) -> int:
        """The same where tensor ranks share the sequence between their products."""
        shares = self.recipe.habits.sequence_parallel
        return self.tokens // self.degrees.tensor if shares else self.tokens

    @property
    def attention_batches(self) -> int:
        """Of a micro-batch on one rank: a sequence under a head is one."""
        return self.recipe.micro_batch * (self.model.attention.heads // self.degrees.tensor)

    @property
    def one_softmax(self) -> bool:
        """Whether one kernel makes weights of scores that attention writes to memory."""
        fits = self.attention_batches % 4 == 0 and self.sequence <= _MOST_KEYS
        return fits or not self.recipe.habits.softmax_by_four

    @property
    def routed_rows(self) -> int:
        """Rows that fall on the fullest rank's experts in one micro-batch."""
        experts = self.model.experts
        assert experts is not None
        return round(self._mean_rows * experts.load_on(self.degrees.expert))

    @property
    def expert_rows(self) -> tuple[tuple[int, int], ...]:
        """What falls on each of those experts, as counts of experts with their rows: all alike, or
        where routing was recorded by groups of about equal load."""
        experts, held = self.model.experts, self.held_experts
        assert experts is not None
        if experts.routing is None:
            return ((held, max(1, self.routed_rows // held)),)
        whole = self._mean_rows * self.degrees.expert
        loads = experts.routing.loads_on(self.degrees.expert)
        bounds = [round(held * part / _GROUPS) for part in range(_GROUPS + 1)]
        groups = [loads[a:b] for a, b in pairwise(bounds) if a < b]
        return tuple(
            (len(group), max(1, round(whole * sum(group) / len(group)))) for group in groups
        )

    @property
    def _mean_rows(self) -> int:
        """Rows of a rank where all have as many."""
        assert self.model.experts is not None
        return self.tokens // self.degrees.tensor * self.model.experts.top_k

    @property
    def held_experts(self) -> int:
        return self.model.experts.count // self.degrees.expert if self.model.experts else 0

    @property
    def regathers(self) -> bool:
        """Whether weights are gathered for each pass. A pipeline keeps them until its step ends,
        and gradients whole until the last micro-batch, as torchtitan does."""
        full = self.recipe.sharding in (Sharding.FULL, Sharding.HYBRID)
        return full and self.degrees.pipeline == 1

    @property
    def stage_ranks(self) -> int:
        d = self.degrees
        return d.tensor * d.sequence * d.data

    @property
    def replicas(self) -> int:
        """Ranks with the same dense weights."""
        return self.degrees.data * self.degrees.sequence

    @property
    def vocab(self) -> int:
        """Words on one tensor rank."""
        shared = self.degrees.tensor if self.recipe.habits.shares_words else 1
        return _padded(self.model.vocab) // shared

    @cached_property
    def chunks(self) -> tuple[tuple[int, ...], ...]:
        """Layers of each chunk in the order of the pipeline; chunk i lies on stage i mod stages.

        Layers that do not divide are cut as if embedding and output were a layer each; so are those
        before layers that predict further on, which lie before the output, where they have room.
        """
        count, layers = self.degrees.pipeline * self.recipe.chunks, self.model.layers
        further = self.model.further
        last = 1 + further if (layers + 2 + further) // count > further else 1
        if count == 1 or (layers % count == 0 and not further):
            sizes = [layers // count] * count
        else:
            each, more = divmod(layers + 1 + last, count)
            sizes = [each + (i < more) for i in reversed(range(count))]
            sizes[0], sizes[-1] = sizes[0] - 1, sizes[-1] - last
        ends = [sum(sizes[: i + 1]) for i in range(count)]
        return tuple(tuple(range(end - size, end)) for size, end in zip(sizes, ends))

    @cached_property
    def contents(self) -> tuple[Content, ...]:
        """Of each chunk; most are alike."""
        last = len(self.chunks) - 1
        return tuple(
            Content(*self._kinds(layers), at == 0, at == last, *self._kinds(self.again(layers)))
            for at, layers in enumerate(self.chunks)
        )

    def again(self, layers: tuple[int, ...]) -> tuple[int, ...]:
        """Those of a chunk's layers that are recomputed."""
        if self.recipe.recompute is Recompute.NONE:
            return ()
        return layers[: self.recipe.recomputed or None]

    def _kinds(self, layers: tuple[int, ...]) -> tuple[int, int]:
        """Dense ones and routed ones."""
        routed = self.model.routed_among(layers)
        return len(layers) - routed, routed

    def shares(self, content: Content) -> tuple[WeightShare, WeightShare]:
        """Weights of a chunk on one rank: dense ones with its ends, and experts."""
        m, d = self.model, self.degrees
        dense_layer, routed_layer = self._layer_params
        dense = content.dense * dense_layer + content.routed * routed_layer
        alone = content.first and content.last and m.tied
        dense += self.vocab * m.hidden * (content.first + content.last - alone)
        further = m.further if content.last else 0
        if further:
            joined = m.joined.on_rank(d.tensor).params + 3 * m.hidden
            dense += further * ((dense_layer if m.experts is None else routed_layer) + joined)
        experts = (content.routed + further) * self.expert_params
        return (
            WeightShare(dense, self.replicas, d.tensor),
            WeightShare(experts, self.stage_ranks // d.expert, d.expert),
        )

    @cached_property
    def _layer_params(self) -> tuple[int, int]:
        """Weights of a dense layer, and of a routed one but for its experts, on a rank."""
        m, t = self.model, self.degrees.tensor
        attention = sum(one.on_rank(t).params for one in m.linears) + 2 * m.hidden
        dense = sum(one.on_rank(t).params for one in m.feed_forward(m.ffn))
        if m.experts is None:
            return attention + dense, 0
        beside = (*m.feed_forward(m.experts.shared), self.router)
        return attention + dense, attention + sum(one.on_rank(t).params for one in beside)

    @property
    def router(self) -> Linear:
        assert self.model.experts is not None
        return Linear("router", self.model.experts.count, self.model.hidden, Cut.WHOLE)

    @property
    def expert_params(self) -> int:
        """One layer's experts on a rank."""
        m = self.model
        if m.experts is None:
            return 0
        return self.held_experts * sum(one.params for one in m.feed_forward(m.experts.ffn))

    def _check_tokens(self) -> None:
        d, r = self.degrees, self.recipe
        _divides("sequence", self.sequence, "context x tensor", d.sequence * d.tensor)
        _divides("global_batch", r.global_batch, "data x micro_batch", d.data * r.micro_batch)

    def _check_experts(self) -> None:
        experts, d = self.model.experts, self.degrees
        if experts is None:
            if d.expert > 1:
                raise GraphError(f"expert={d.expert}, but {self.model.name} has no experts; give 1")
            return
        _divides("experts", experts.count, "expert", d.expert)
        _divides("tensor x context x data", self.stage_ranks, "expert", d.expert)

    def _check_schedule(self) -> None:
        d, r = self.degrees, self.recipe
        interleaved = r.schedule is Schedule.INTERLEAVED
        if r.chunks > 1 and not interleaved:
            raise GraphError(
                f"{r.chunks} chunks a stage need the interleaved schedule; given is "
                f"{r.schedule.value}"
            )
        if interleaved and d.pipeline > 1:
            _divides("micro-batches", self.microbatches, "pipeline (interleaved)", d.pipeline)
        if d.pipeline * r.chunks > self.model.layers:
            raise GraphError(
                f"{self.model.layers} layers cannot be cut into {d.pipeline} stages of {r.chunks} "
                "chunks; give fewer"
            )

    def _check_recompute(self) -> None:
        r, most = self.recipe, max(map(len, self.chunks))
        if r.recomputed and r.recompute is not Recompute.FULL:
            raise GraphError(
                f"recompute={r.recompute.value} of {r.recomputed} layers: only full recomputation "
                "is for some layers; give recompute=full, or leave the number away"
            )
        if not 0 <= r.recomputed <= most:
            raise GraphError(
                f"{r.recomputed} layers of each chunk are to be recomputed; a chunk has {most}"
            )


def _padded(vocab: int) -> int:
    """Frameworks pad the vocabulary so that tensor ranks share it evenly."""
    return -(-vocab // 128) * 128


def _divides(what: str, value: int, by: str, divisor: int) -> None:
    if value % divisor:
        raise GraphError(
            f"{what}={value} is not divisible by {by}={divisor} (remainder {value % divisor}); "
            f"change one of them, for example {what}={value - value % divisor or divisor}"
        )
