"""What a recording tells of its job beyond the ops: typed facts, and the axis of each group."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import numpy as np

from paceline.graph import (
    NONE,
    Axis,
    DepKind,
    Facts,
    Graph,
    Group,
    OpKind,
    Parameter,
    Role,
)
from paceline.graph.facts import Loading, Optimizer
from paceline.graph.graph import Bool
from paceline.machine import Pulse, typical_pulse
from paceline.record import sidecar
from paceline.record.sidecar import RecordedBucket, RecordedHost, Sidecar
from paceline.trace.assemble import RankBlock
from paceline.trace.gpus import gpus_of
from paceline.trace.plain import plain_runs, plain_steps, run_ns, wall_ns
from paceline.trace.turns import beside_recorded


def with_facts(graph: Graph, blocks: Sequence[RankBlock]) -> Graph:
    """The graph with the facts that traces and recorder give, and its groups' axes."""
    traces = [block.view.trace for block in blocks]
    sidecars = [block.view.sidecar for block in blocks if block.view.sidecar is not None]
    world = max([trace.world_size for trace in traces] + [len(traces)])
    facts = _facts_of(sidecars, world) if sidecars else Facts(world_size=world)
    facts = replace(
        facts,
        memory=tuple(t.memory for t in traces if t.memory is not None),
        gpus=tuple(dict.fromkeys(gpu for trace in traces for gpu in gpus_of(trace))),
    )
    return replace(graph, facts=facts, groups=_with_axes(graph, world))


def _facts_of(sidecars: Sequence[Sidecar], world: int) -> Facts:
    parameters = sidecars[0].of(sidecar.Parameter)
    names = {p.index: p.name for p in parameters}
    hosts = sidecars[0].of(RecordedHost)
    return Facts(
        world_size=world,
        parameters=tuple(
            Parameter(p.name, p.size_bytes * p.shards, p.shape, p.module, Role(p.role))
            for p in parameters
        ),
        buckets=tuple(
            tuple(names[i] for i in b.parameters) for b in sidecars[0].of(RecordedBucket)
        ),
        update_shards=max((p.shards * p.owners for p in parameters), default=1),
        plain_step_ns=_plain(beside_recorded(sidecars, wall_ns), plain_steps(sidecars)),
        plain_run_ns=_plain(beside_recorded(sidecars, run_ns), plain_runs(sidecars)),
        pulse=recorded_pulse(sidecars),
        cores=hosts[0].cores if hosts else 0,
        optimizer=_optimizer(sidecars[0]),
        loading=_loading(sidecars),
    )


def _plain(beside: float | None, apart: Sequence[int]) -> int:
    """From steps that took turns with recorded ones, else the median of those that ran apart."""
    if beside is not None:
        return round(beside)
    return round(median(apart)) if apart else 0


def _loading(sidecars: Sequence[Sidecar]) -> Loading:
    """Of the loader with the most workers: whose batches the threads do not prepare."""
    batches = [batch for each in sidecars for batch in each.of(sidecar.Data)]
    most = max(batches, key=lambda batch: batch.workers, default=None)
    return Loading() if most is None else Loading(most.workers, most.prefetch)


def recorded_pulse(sidecars: Sequence[Sidecar]) -> Pulse | None:
    """The machine's pulse in the median, while the job was recorded."""
    return typical_pulse([one.pulse for each in sidecars for one in each.of(sidecar.Pulsed)])


def _optimizer(told: Sidecar) -> Optimizer | None:
    found = told.of(sidecar.Optimizer)
    return Optimizer(found[0].kind, bool(found[0].settings.get("fused"))) if found else None


def _with_axes(graph: Graph, world: int) -> tuple[Group, ...]:
    return tuple(
        replace(group, axis=_axis(graph, row, group, world))
        for row, group in enumerate(graph.groups)
    )


def _axis(graph: Graph, row: int, group: Group, world: int) -> Axis:
    """By what the group's communication is for: messages join stages, gradients replicas; what no
    gradient waits for is cut within the layers."""
    ops = graph.ops
    mine = ops.group == row
    if mine.any() and np.isin(ops.kind[mine], (OpKind.SEND, OpKind.RECV, OpKind.TRANSFER)).all():
        return Axis.PIPELINE
    if _with_gradients(graph, mine):
        return Axis.DATA
    if len(group.ranks) < world:
        return Axis.TENSOR
    if any(other.ranks != group.ranks for other in graph.groups):
        return Axis.WORLD
    return Axis.TENSOR if (ops.tensor != NONE).any() else Axis.NONE


def _with_gradients(graph: Graph, mine: Bool) -> bool:
    deps = graph.deps
    owner = np.repeat(np.arange(len(graph)), np.diff(deps.ptr))
    links = deps.kind == DepKind.GRADIENT
    return bool(mine[owner[links]].any() or mine[deps.src[links]].any())
