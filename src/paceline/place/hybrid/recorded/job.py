"""`recorded_model`: the model of a graph, how it was run, and what its parts took."""

from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from paceline.cluster import Device
from paceline.cost.decoder import Site, Timed
from paceline.cost.passes import PassTimes
from paceline.cost.ported import recorded_device
from paceline.graph import Basis, Graph, LaneKind
from paceline.graph.condense import Grain, condense
from paceline.graph.kinds import UNPRICED, Axis, DeviceKind
from paceline.graph.stage_costs import LayerTimes, layer_times
from paceline.imagine.decoder import (
    PROCESSOR_BYTES,
    TORCH,
    Decoder,
    DecoderJob,
    Habits,
    Recipe,
    kept_bytes,
)
from paceline.imagine.transformer import Degrees
from paceline.place.hybrid.question import Allowed, PlanQuestion
from paceline.place.hybrid.recorded.blocks import Blocks, blocks_of
from paceline.place.hybrid.recorded.dimensions import Described, described
from paceline.place.operators.problem import PlacementError
from paceline.predict.anchor import anchored

_CUT: Final = (Axis.TENSOR, Axis.SEQUENCE, Axis.EXPERT, Axis.PIPELINE)
_SEEN: Final = (Basis.RECORDED, Basis.WALL)


@dataclass(frozen=True)
class RecordedAs:
    """What a graph does not say: a name for its model, and the device where it does not name one
    (a processor is taken for the cluster's)."""

    name: str
    device: str = ""


@dataclass(frozen=True)
class Spent:
    """A recorded step's times, and on which GPU; None is a processor, taken for the cluster's.
    `crowded`: there were more ranks than cores."""

    layer: PassTimes
    first: PassTimes
    last: PassTimes
    update_ns: float
    device: Device | None
    crowded: bool = False


@dataclass(frozen=True)
class RecordedModel:
    """A model with how it was run. `spent` is None where nothing was recorded."""

    found: Described
    spent: Spent | None
    habits: Habits = field(default=TORCH)

    @property
    def model(self) -> Decoder:
        return self.found.model

    @property
    def worker_batch(self) -> int:
        """Sequences of a worker's step."""
        return self.found.micro_batch * self.found.passes

    def question(self, site: Site, **settings: Any) -> PlanQuestion:
        """What to plan on a site: as many sequences for each device as a worker had, in the
        recorded type, where nothing else is said."""
        usual = Allowed()
        sizes = {*usual.micro_batches, self.found.micro_batch}
        habits = self.habits
        if site.device.kind is DeviceKind.CPU:
            habits = replace(habits, outside_bytes=PROCESSOR_BYTES)
        asked: dict[str, Any] = {
            "model": self.model,
            "site": site,
            "global_batch": self.worker_batch * site.ranks,
            "precision": self.found.precision,
            "habits": habits,
            "allowed": replace(usual, micro_batches=tuple(sorted(sizes))),
            "timed": self.timed(site),
            **settings,
        }
        return PlanQuestion(**asked)

    def timed(self, site: Site) -> Timed | None:
        if self.spent is None:
            return None
        job, one = _alone(self.found, self.habits), self.spent
        device = one.device or site.device
        return Timed(job, device, one.layer, one.first, one.last, one.update_ns, one.crowded)


def recorded_model(graph: Graph, as_: RecordedAs) -> RecordedModel:
    """Refuses what is cut already: its products are parts."""
    _require_whole(graph)
    blocks = blocks_of(graph)
    found = described(graph, blocks, as_.name)
    habits = replace(TORCH, fused_attention=found.fused_attention)
    habits = replace(habits, kept=_kept(graph, blocks, _alone(found, habits)))
    spent = _spent(graph, blocks, found.passes, as_) if _is_recorded(graph) else None
    return RecordedModel(found, spent, habits)


def _alone(found: Described, habits: Habits) -> DecoderJob:
    """What one rank of the recorded job did, a micro-batch at a time."""
    size = found.micro_batch
    recipe = Recipe(size, size, precision=found.precision, habits=habits)
    return DecoderJob(found.model, Degrees(), recipe)


def _kept(graph: Graph, blocks: Blocks, job: DecoderJob) -> float:
    """What a block keeps, over what its dimensions say; 1 where it was not recorded."""
    names = {f"{blocks.prefix}{number}" for number in blocks.numbers}
    told = [
        layer.kept_bytes
        for rank in graph.facts.memory[:1]
        for layer in rank.layers
        if layer.name in names and layer.kept_bytes
    ]
    return sum(told) / len(told) / kept_bytes(job, routed=False) if told else 1.0


def _require_whole(graph: Graph) -> None:
    cut = {group.axis for group in graph.groups if len(group.ranks) > 1} & {*_CUT}
    if cut:
        names = ", ".join(sorted(axis.value for axis in cut))
        raise PlacementError(
            f"the recorded job is cut along {names} already, so its products are parts of the "
            "model's; record it on plain replicas, or on one worker"
        )


def _is_recorded(graph: Graph) -> bool:
    """Whether its times were seen. A priced graph without a recording is forecast anew instead,
    shape by shape."""
    dur, basis = graph.ops.dur_ns, graph.ops.basis
    return bool((dur != UNPRICED).all() and np.isin(basis[dur > 0], _SEEN).any())


def _spent(graph: Graph, blocks: Blocks, passes: int, as_: RecordedAs) -> Spent:
    """Of the typical step, without what instruments add."""
    times = layer_times(anchored(condense(graph, Grain.OP), elsewhere=True))
    held = [blocks.holds(name) for name in times.names]
    first = held.index(True)
    inside = _sum(times, [at for at in range(len(held)) if held[at]], passes)
    count = len(blocks.numbers)
    on_stream = bool((graph.lanes.kind == LaneKind.STREAM).any())
    return Spent(
        PassTimes(inside.forward_ns / count, inside.backward_ns / count),
        _sum(times, [*range(first)], passes),
        _sum(times, [at for at in range(first, len(held)) if not held[at]], passes),
        times.update_ns * graph.facts.update_shards,
        recorded_device(graph, as_.device) if on_stream or as_.device else None,
        crowded=_crowded(graph),
    )


def _crowded(graph: Graph) -> bool:
    """More ranks than cores on a host."""
    hosts = {device.host for device in graph.devices}
    return 0 < graph.facts.cores < graph.world_size / max(1, len(hosts))


def _sum(times: LayerTimes, layers: list[int], passes: int) -> PassTimes:
    """Of one pass through these layers."""
    return PassTimes(
        sum(times.forward_ns[at] for at in layers) / passes,
        sum(times.backward_ns[at] for at in layers) / passes,
    )
