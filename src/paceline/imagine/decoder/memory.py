"""What each rank holds at its fullest, by category, before anything runs.

States: Megatron keeps weights in 16 bits, gradients in float32, and a float32 copy with two moments
in the optimizer; FSDP2 keeps weights, gradients and both moments in float32 and gathers weights in
16 bits. Activations: what each operator's backward pass needs (Korthikanti et al. 2022, by linear
layer), for as many micro-batches as the schedule has in flight. The loss works on logits in
float32, beside all kept activations. The allocator holds more than is used (`IDLE`).

**When it is wrong:** recomputation that a framework decides tensor by tensor; experts whose load
swings from step to step.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

from paceline.graph.kinds import MemoryCategory
from paceline.graph.schedules import in_flight
from paceline.graph.work import element_bytes
from paceline.imagine.decoder.habits import Fusion, Selective
from paceline.imagine.decoder.job import Content, DecoderJob, Sharding, WeightShare
from paceline.imagine.decoder.model import Cut, Latent
from paceline.imagine.transformer.description import Recompute

IDLE: Final = 0.08
"""Part of what the allocator holds, over what is used: blocks that fit nothing. Chosen with the six
published peaks of torchtitan in sight."""
_LOSS_BYTES: Final = {Fusion.LIBRARY: 8.0, Fusion.COMPILED: 12.0, Fusion.EAGER: 14.0}
"""Per logit when its gradient is worked out: log-probabilities, gradients in and out, each float32,
and in eager mode the 16-bit logits too; fused losses work in place."""


@dataclass(frozen=True)
class RankPeak:
    """Bytes on one rank of a stage at the moment of most use."""

    stage: int
    held: Mapping[MemoryCategory, int]
    outside_bytes: int

    @property
    def allocated(self) -> int:
        """As the allocator reports what it reserves."""
        return round(sum(self.held.values()) * (1 + IDLE))

    @property
    def total(self) -> int:
        return self.allocated + self.outside_bytes


def peaks(job: DecoderJob) -> tuple[RankPeak, ...]:
    """One per pipeline stage."""
    keeps = _keeps(job)
    return tuple(_peak(job, stage, keeps) for stage in range(job.degrees.pipeline))


@lru_cache(maxsize=65_536)  # asked while plans are drawn, judged, shown and explained
def fullest(job: DecoderJob) -> RankPeak:
    """The stage that decides whether the job fits. Of stages with the same layers the first one
    has the most micro-batches in flight."""
    first: dict[tuple[Content, ...], int] = {}
    for stage in range(job.degrees.pipeline):
        first.setdefault(job.contents[stage :: job.degrees.pipeline], stage)
    keeps = _keeps(job)
    return max((_peak(job, stage, keeps) for stage in first.values()), key=lambda peak: peak.total)


def kept_bytes(job: DecoderJob, *, routed: bool, again: bool = True) -> float:
    """What one layer keeps of one micro-batch for its backward pass; `again` where it is one of
    those that are recomputed."""
    if not again:
        return _kept_all(job, routed)
    if job.recipe.recompute is Recompute.FULL:
        return job.rank_tokens * job.model.hidden * element_bytes(job.recipe.precision.kept)
    half = job.recipe.recompute is Recompute.SELECTIVE
    if half and job.recipe.habits.selective is Selective.HALF:
        return _kept_half(job, routed)
    if half and job.recipe.habits.selective is Selective.LIGHT:
        return _kept_all(job, routed) - _spared(job, routed)
    return _kept_all(job, routed) - (_scores(job) if half else 0.0)


Keeps = Callable[[bool, bool], float]
"""`kept_bytes` of a job's layers, by whether they are routed and recomputed."""


def _keeps(job: DecoderJob) -> Keeps:
    """Worked out once; a job has many chunks of such layers."""
    return cache(lambda routed, again: kept_bytes(job, routed=routed, again=again))


def _peak(job: DecoderJob, stage: int, keeps: Keeps) -> RankPeak:
    mine = Counter(job.contents[stage :: job.degrees.pipeline])
    held = dict.fromkeys(
        (MemoryCategory.WEIGHTS, MemoryCategory.GRADIENTS, MemoryCategory.OPTIMIZER), 0.0
    )
    for content, count in mine.items():
        for share in job.shares(content):
            for category, size in _states(job, share).items():
                held[category] += count * size
    held[MemoryCategory.ACTIVATIONS] = _activations(job, mine, stage, keeps)
    held[MemoryCategory.TEMPORARY] = _loss(job, stage) + _rebuilt(job)
    buffers = {content: _buffers(job, content) for content in mine}
    held[MemoryCategory.COMMUNICATION] = (
        max(buffers.values())
        if job.regathers
        else sum(count * buffers[content] for content, count in mine.items())
    )
    whole = {category: round(size) for category, size in held.items()}
    return RankPeak(stage, whole, job.recipe.habits.outside_bytes)


def _states(job: DecoderJob, share: WeightShare) -> dict[MemoryCategory, float]:
    wide, how = job.recipe.habits.wide_weights, job.recipe.sharding
    narrow = element_bytes(job.recipe.precision.kept)
    weight, gradient = 4.0 if wide else narrow, job.recipe.habits.gradient_bytes
    optimizer = 8.0 if wide or narrow == 4 else 12.0
    full = how in (Sharding.FULL, Sharding.HYBRID)
    count = share.replicas
    return {
        MemoryCategory.WEIGHTS: share.params * weight / (count if full else 1),
        MemoryCategory.GRADIENTS: share.params
        * gradient
        / (count if full or how is Sharding.GRADIENTS else 1),
        MemoryCategory.OPTIMIZER: share.params
        * optimizer
        / (count if how is not Sharding.NONE else 1),
    }


def _activations(job: DecoderJob, mine: Counter[Content], stage: int, keeps: Keeps) -> float:
    """Chunks in flight are taken for the average of the stage's."""
    kept, r = sum(count * _kept(job, content, keeps) for content, count in mine.items()), job.recipe
    count = in_flight(r.schedule, stage, job.degrees.pipeline, job.microbatches, r.chunks)
    return kept / r.chunks * count


def _kept(job: DecoderJob, content: Content, keeps: Keeps) -> float:
    """By all layers of a chunk, and behind the last those that predict further on."""
    further = job.model.further if content.last else 0
    return _kept_layers(content, keeps) + further * (
        keeps(job.model.experts is not None, True)
        + 2 * job.rank_tokens * job.model.hidden * element_bytes(job.recipe.precision.dtype)
    )


def _kept_layers(content: Content, keeps: Keeps) -> float:
    layers = (
        (content.dense, content.dense_again, False),
        (content.routed, content.routed_again, True),
    )
    return sum(
        again * keeps(routed, True) + (count - again) * keeps(routed, False)
        for count, again, routed in layers
        if count
    )


def _kept_all(job: DecoderJob, routed: bool) -> float:
    """Inputs of norms, of products (in the products' type) and of attention; scores if written."""
    m, r, t = job.model, job.recipe, job.degrees.tensor
    e, narrow = element_bytes(r.precision.kept), element_bytes(r.precision.dtype)
    own, n, h = job.rank_tokens, job.tokens, m.hidden
    kept = own * h * (2 * e + narrow) + n * m.attention.kept // t * e
    kept += n * m.attention.heads * m.attention.value_dim // t * (e + narrow * r.precision.narrow)
    kept += n * sum(one.outputs for one in m.linears[:-1] if one.cut is Cut.WHOLE) * narrow
    return (kept + _scores(job) + _kept_forward(job, routed)) * job.recipe.habits.kept


def _kept_forward(job: DecoderJob, routed: bool) -> float:
    m, r, t = job.model, job.recipe, job.degrees.tensor
    e, narrow = element_bytes(r.precision.kept), element_bytes(r.precision.dtype)
    tensors = (2 if m.gated else 1) * e + narrow
    if not routed or m.experts is None:
        return job.rank_tokens * m.hidden * narrow + job.tokens * m.ffn // t * tensors
    rows = job.routed_rows
    shared = job.tokens * m.experts.shared // t * tensors
    inputs = job.rank_tokens * m.hidden * narrow + rows * m.hidden * (narrow + e)
    return inputs + rows * m.experts.ffn * tensors + shared


def _scores(job: DecoderJob) -> float:
    """Softmax's result and dropout's mask and result, where attention writes them."""
    if job.recipe.habits.fused_attention:
        return 0.0
    pairs = job.attention_batches * job.sequence**2 / job.degrees.sequence
    kept = element_bytes(job.recipe.precision.kept)
    return pairs * ((kept if job.one_softmax else 4) + 1 + kept)


def _spared(job: DecoderJob, routed: bool) -> float:
    """Norms' results, experts' activations, and what latent attention makes of what it keeps."""
    m, r = job.model, job.recipe
    e, narrow = element_bytes(r.precision.kept), element_bytes(r.precision.dtype)
    spared = 2 * job.rank_tokens * m.hidden * narrow
    if isinstance(m.attention, Latent):
        spared += job.tokens * m.attention.kept // job.degrees.tensor * e
    if routed and m.experts is not None:
        spared += job.routed_rows * m.experts.ffn * narrow
    return spared


def _kept_half(job: DecoderJob, routed: bool) -> float:
    """The input, attention's result, and what every other product made."""
    m, t = job.model, job.degrees.tensor
    e = element_bytes(job.recipe.precision.kept)
    kept: float = job.tokens * m.attention.heads * m.attention.value_dim // t
    kept += sum(width * rows for width, rows in _apart(job))
    if routed and m.experts is not None:
        kept += job.routed_rows * (m.experts.ffn + m.hidden)
    else:
        kept += job.tokens * (m.ffn // t + m.hidden // t)
    return (kept + job.rank_tokens * m.hidden) * e


def _apart(job: DecoderJob) -> list[tuple[int, int]]:
    """Queries and values are kept; keys and the projection are not (width, rows)."""
    a, t = job.model.attention, job.degrees.tensor
    return [(a.heads * a.head_dim // t, job.tokens), (a.kv_heads * a.value_dim // t, job.tokens)]


def _loss(job: DecoderJob, stage: int) -> float:
    if stage != job.degrees.pipeline - 1:
        return 0.0
    outputs = 1 + job.model.further
    return outputs * job.tokens * job.vocab * _LOSS_BYTES[job.recipe.habits.fusion]


def _rebuilt(job: DecoderJob) -> float:
    """What full recomputation makes of one layer while its backward pass runs."""
    if job.recipe.recompute is not Recompute.FULL:
        return 0.0
    return _kept_all(job, routed=job.model.is_routed(job.model.layers - 1))


def _buffers(job: DecoderJob, content: Content) -> float:
    """Gathered weights: the layer in use and the next one, and the ends, which stay; in a pipeline
    all of them, with their gradients."""
    if job.recipe.sharding not in (Sharding.FULL, Sharding.HYBRID):
        return 0.0
    e = element_bytes(job.recipe.precision.kept)
    dense, routed = job.shares(content)
    if not job.regathers:
        return (dense.params + routed.params) * (e + job.recipe.habits.gradient_bytes)
    ends = job.vocab * job.model.hidden * (content.first + content.last)
    each = max(0, dense.params - ends + routed.params) / max(1, content.dense + content.routed)
    return (ends + 2 * each) * e + each * (e + 4)
