"""`DecoderPrices`: what a chunk of layers takes for a micro-batch on a rank, and what is exchanged.

Kernels of a rank follow one another in one stream. A tensor-parallel collective that its framework
cuts up beside a product hides behind it but for one piece; a ring of keys and values hides behind
attention but for its first piece; what cannot hide is waited for. Where kernels are so short that
the host cannot start them fast enough, its launches decide.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from paceline.cost.decoder.exchanges import exchange_ns
from paceline.cost.decoder.hosted import hosted_passes, hosted_update_ns
from paceline.cost.decoder.over_gloo import cores_ns, turns
from paceline.cost.decoder.site import Ring, Site
from paceline.cost.decoder.timed import (
    UPDATE_BYTES,
    Pace,
    Timed,
    even,
    kernels_on,
    paces_of,
    update_ns,
)
from paceline.cost.domain import Domain
from paceline.cost.forecast import Constants, sheet_of, shipped
from paceline.graph.kinds import Axis, Collective
from paceline.graph.work import element_bytes
from paceline.imagine.decoder import (
    AxisCollective,
    Content,
    Core,
    DecoderJob,
    GroupedQuery,
    Operator,
    Operators,
    Passes,
    Precision,
    Product,
    Sharding,
    WeightShare,
    launches,
)
from paceline.imagine.transformer.description import Degrees


@dataclass(frozen=True)
class BlockTimes:
    """What a layer, or an end of the model, takes: kernels, and what is waited for of exchanges."""

    forward_ns: float = 0.0
    backward_ns: float = 0.0
    exposed_ns: float = 0.0  # of both, in exchanges

    def __add__(self, other: "BlockTimes") -> "BlockTimes":
        return BlockTimes(
            self.forward_ns + other.forward_ns,
            self.backward_ns + other.backward_ns,
            self.exposed_ns + other.exposed_ns,
        )

    def __rmul__(self, count: int) -> "BlockTimes":
        return BlockTimes(
            count * self.forward_ns, count * self.backward_ns, count * self.exposed_ns
        )


@dataclass(frozen=True)
class Chunk:
    """A chunk of layers on one rank: passes of one micro-batch, and once a step what the data
    ranks gather and reduce, and the update."""

    block: BlockTimes
    layers: int
    gather_ns: float
    reduce_ns: float
    update_ns: float

    @property
    def forward_ns(self) -> float:
        return self.block.forward_ns

    @property
    def backward_ns(self) -> float:
        return self.block.backward_ns


@dataclass(frozen=True)
class LayerKind:
    """Layers that are alike: with experts, attending to the whole sequence, recomputed."""

    routed: bool
    full: bool
    again: bool


class DecoderPrices:
    """Prices on one site; `factor` is by how much its kernels take longer than forecast. Where
    parts were `timed`, by what was recorded instead; launches and gaps are in it."""

    def __init__(
        self,
        site: Site,
        factor: float = 1.0,
        constants: Constants | None = None,
        timed: Timed | None = None,
    ) -> None:
        self.site, self.timed = site, timed
        self.domain = Domain(sheet_of(site.device), constants or shipped())
        self.kernels, self.constants = kernels_on(site.device, constants), constants
        self.paces = paces_of(timed, constants) if timed else even(factor)
        self._blocks: dict[object, BlockTimes] = {}
        self._exchanged: dict[tuple[object, ...], float] = {}

    def with_factor(self, factor: float) -> "DecoderPrices":
        """The same with other kernels; shapes that were asked for stay known."""
        made = DecoderPrices(self.site, factor, self.constants)
        made.kernels, made._exchanged = self.kernels, self._exchanged
        return made

    def chunk(self, job: DecoderJob, at: int) -> Chunk:
        """The chunk's passes and what its ranks exchange."""
        m, layers, last = job.model, job.chunks[at], len(job.chunks) - 1
        total = BlockTimes()
        again = set(job.again(layers))
        kinds = Counter((m.is_routed(one), _full(job, one), one in again) for one in layers)
        for kind, count in kinds.items():
            total += count * self.layer(job, LayerKind(*kind))
        if at == 0:
            total += self._end(job, first=True)
        if at == last:
            total += self._end(job, first=False) + m.further * self._further(job)
        held = job.shares(job.contents[at])
        calls = self._calls(job, job.contents[at])
        parts = [self._shared(job, share, calls) for share in held if share.params]
        update = sum(self._update_ns(job, share) for share in held)
        update += hosted_update_ns(self.site, job, job.contents[at])
        return Chunk(total, len(layers), sum(p[0] for p in parts), sum(p[1] for p in parts), update)

    def layer(self, job: DecoderJob, kind: LayerKind) -> BlockTimes:
        key = (_passes_key(job), kind)
        if key not in self._blocks:
            made = Operators(job)
            there = made.forward(routed=kind.routed, full=kind.full)
            back = made.backward(routed=kind.routed, full=kind.full, again=kind.again)
            made_block = self._block(job, (there, back), self.paces.layer)
            self._blocks[key] = made_block + self._hosted(job, again=kind.again)
        return self._blocks[key]

    def message_ns(self, job: DecoderJob, source: int, target: int) -> float:
        """Activations from one stage to another."""
        size = Operators(job).message_bytes()
        step = abs(target - source) * job.stage_ranks
        crosses = step >= self.site.per_host or source > target
        ring = Ring(2, self.site.per_host if crosses else job.stage_ranks)
        return self._exchange_ns(Collective.POINT_TO_POINT, size, ring)

    def _end(self, job: DecoderJob, *, first: bool) -> BlockTimes:
        key = (_passes_key(job), "first" if first else "last")
        if key not in self._blocks:
            made = Operators(job)
            passes, pace = (
                ((made.embedding(), made.embedding_back()), self.paces.first) if first
                else ((made.head(), made.head_back()), self.paces.last)
            )  # fmt: skip
            self._blocks[key] = self._block(job, passes, pace)
        return self._blocks[key]

    def _further(self, job: DecoderJob) -> BlockTimes:
        """A layer that predicts further on, with what joins it to the model and its output."""
        key = (_passes_key(job), "joined")
        if key not in self._blocks:
            made = Operators(job)
            self._blocks[key] = self._block(
                job, (made.joined(), made.joined_back()), self.paces.layer
            )
        again = bool(job.again((0,)))
        layer = self.layer(job, LayerKind(job.model.experts is not None, full=True, again=again))
        return self._blocks[key] + layer + self._end(job, first=False)

    def _block(
        self, job: DecoderJob, passes: tuple[list[Operator], list[Operator]], pace: Pace
    ) -> BlockTimes:
        there, back = passes
        self.kernels.learn([*there, *back])
        forward, waited = self._pass_ns(job, there, pace.forward)
        backward, waited_back = self._pass_ns(job, back, pace.backward)
        return BlockTimes(forward, backward, waited + waited_back)

    def _hosted(self, job: DecoderJob, *, again: bool) -> BlockTimes:
        """What the host spends on a layer beside its kernels."""
        spent = hosted_passes(self.site, job)
        return BlockTimes(spent.forward_ns, spent.backward_ns + again * spent.forward_ns)

    def _pass_ns(self, job: DecoderJob, listed: list[Operator], pace: float) -> tuple[float, float]:
        """All kernels and what is waited for; and the latter alone."""
        work = sum(self.kernels.ns(one) * self._crowded(one) for one in listed) * pace
        exchanges = [one for one in listed if isinstance(one, AxisCollective)]
        waits = [self._waited_ns(job, one, listed, pace) for one in exchanges]
        busy = work / (work + sum(waits)) if any(waits) else 1.0
        waits = [wait + busy * self._turns_ns(job, one) for wait, one in zip(waits, exchanges)]
        work += self._after_rests_ns(work, waits)
        waited = sum(waits) / self.site.crowd  # who waits takes no core, and replay slows a pass
        if self.timed is not None:
            return work + waited, waited
        count, habits = launches(listed), job.recipe.habits
        return max(work + waited + count * habits.lag_ns, count * habits.host_ns), waited

    def _crowded(self, one: Operator) -> float:
        """By how much longer it takes beside all ranks' work on the cores that they share."""
        machine, timed = self.site.machine, self.timed
        if machine is None or self.site.crowd <= 1 or (timed is not None and timed.crowded):
            return 1.0
        return machine.crowded_pass if isinstance(one, Passes) else machine.crowded_product

    def _waited_ns(
        self, job: DecoderJob, one: AxisCollective, listed: Sequence[Operator], pace: float
    ) -> float:
        ring = ring_of(job.degrees, one.axis)
        if one.most_hosts:
            ring = replace(ring, crossing=min(1.0, one.most_hosts / one.copies))
        took = self._exchange_ns(one.collective, one.size_bytes, ring)
        if not one.beside:
            cores = cores_ns(self.site, one.collective, one.size_bytes, ring)
            return max(took, cores) + self._together_ns
        hides = pace * sum(
            self.kernels.ns(other) for other in listed if _is_beside(other, one.beside)
        )
        piece = took / ring.ranks
        return piece + max(0.0, took - piece - hides * (1 - 1 / ring.ranks))

    def _turns_ns(self, job: DecoderJob, one: AxisCollective) -> float:
        """What its messages wait for their turn on the cores that all ranks share, while the ranks
        of other groups keep them busy."""
        machine = self.site.machine
        if machine is None or self.site.crowd <= 1 or one.beside:
            return 0.0
        ring = ring_of(job.degrees, one.axis)
        taken = min(1.0, (self.site.ranks - ring.ranks) / machine.cores)
        return taken * turns(self.site, one.collective, ring) * machine.turn_ns

    @property
    def _together_ns(self) -> float:
        """How much later the last rank comes where all begin at once behind each exchange."""
        machine = self.site.machine
        return 0.0 if machine is None or self.site.crowd <= 1 else machine.together_ns

    def _after_rests_ns(self, work_ns: float, waits_ns: Sequence[float]) -> float:
        """What a pass's work takes longer behind waits that are rests of its thread."""
        machine = self.site.machine
        if machine is None or not machine.rests.cost or not waits_ns:
            return 0.0
        behind = work_ns / len(waits_ns)
        cold = min(behind, machine.warm_ns) if machine.warm_ns else behind
        rests = sum(wait >= machine.rest_ns for wait in waits_ns)
        return rests * cold * (machine.rested - 1)

    def _calls(self, job: DecoderJob, content: Content) -> int:
        """In how many FSDP2 exchanges a chunk's weights: layer by layer, and the ends. On GPUs each
        call's own time is next to nothing."""
        if self.site.network is None or job.recipe.sharding is Sharding.NONE:
            return 1
        return content.dense + content.routed + (content.first or content.last)

    def _shared(self, job: DecoderJob, share: WeightShare, calls: int) -> tuple[float, float]:
        """Gathering weights and reducing gradients among the ranks that have the same ones."""
        how, ring = job.recipe.sharding, Ring(share.replicas, share.stride)
        e, gradient = element_bytes(job.recipe.precision.kept), job.recipe.habits.gradient_bytes
        size, reduced = share.params * self._gathered_bytes(job, e), share.params * gradient
        if how is Sharding.NONE:
            return 0.0, self._exchange_ns(Collective.ALL_REDUCE, reduced, ring)
        if how is Sharding.HYBRID:
            inside = ring.inside(self.site)
            ring, outer = Ring(inside, ring.stride), Ring(ring.ranks // inside, self.site.per_host)
            more = self._exchange_ns(Collective.ALL_REDUCE, reduced / inside, outer)
        else:
            more = 0.0
        gather, scatter = (
            calls * (self._exchange_ns(call, part / calls, ring) + self._together_ns)
            for call, part in (
                (Collective.ALL_GATHER, size), (Collective.REDUCE_SCATTER, reduced)
            )
        )  # fmt: skip
        return gather, more + scatter

    def _gathered_bytes(self, job: DecoderJob, e: float) -> float:
        """FP8 weights are gathered as such where each tensor has one scale of its own."""
        current = job.recipe.precision in (Precision.FP8, Precision.FP8_CURRENT)
        return 1.0 if current and not job.recipe.habits.wide_weights else e

    def _update_ns(self, job: DecoderJob, share: WeightShare) -> float:
        owned = share.params / (1 if job.recipe.sharding is Sharding.NONE else share.replicas)
        took = update_ns(self.site.device, owned) * self.paces.update
        return took * self._crowded(Passes(UPDATE_BYTES * owned, 1))

    def _exchange_ns(self, call: Collective, size_bytes: float, ring: Ring) -> float:
        key = (call, size_bytes, ring)
        if key not in self._exchanged:
            self._exchanged[key] = exchange_ns(self.site, self.domain, call, size_bytes, ring)
        return self._exchanged[key]


def ring_of(degrees: Degrees, axis: Axis) -> Ring:
    """Ranks are laid tensor first, then context, then data; experts over all three."""
    return {
        Axis.TENSOR: Ring(degrees.tensor),
        Axis.SEQUENCE: Ring(degrees.sequence, degrees.tensor),
        Axis.EXPERT: Ring(degrees.expert),
    }[axis]


def _is_beside(other: Operator, name: str) -> bool:
    if isinstance(other, Core):
        return name == "attention"
    return isinstance(other, Product) and other.name == name


def _full(job: DecoderJob, layer: int) -> bool:
    a = job.model.attention
    windowed = isinstance(a, GroupedQuery) and a.window
    return not windowed or layer % a.full_every == a.full_every - 1  # type: ignore[union-attr]


def _passes_key(job: DecoderJob) -> object:
    """What a micro-batch's passes depend on: not the pipeline, the batch or the sharding."""
    d, r = job.degrees, job.recipe
    degrees = (d.tensor, d.sequence, d.expert)
    recipe = (r.micro_batch, job.sequence, r.precision, r.recompute, r.habits, job.microbatches > 1)
    return (job.model, degrees, recipe)
