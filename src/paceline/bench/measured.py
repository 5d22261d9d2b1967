"""A recording of a workload as a `Point`: the same figures as `paceline show RUN --efficiency`."""

from pathlib import Path

from paceline.analyse.efficiency import Efficiency, summarise_efficiency
from paceline.analyse.observations import JobFigures, observed
from paceline.analyse.structure import structure_of
from paceline.analyse.usage import usage_of
from paceline.bench.errors import BenchError
from paceline.bench.point import Key, Point
from paceline.cluster import Device
from paceline.cost.errors import CostError
from paceline.graph import LaneKind
from paceline.record import sidecar
from paceline.replay import Timeline, replay
from paceline.trace.runs import open_run

_SHOWN = 4  # of the costliest operators


def figures_of(run: Path | str, device: Device | None = None, top: int = _SHOWN) -> JobFigures:
    """All figures of a recorded run, or of any graph."""
    timeline, folder = replay(open_run(run)), Path(run)
    sidecars = [sidecar.read(path) for path in sorted(folder.glob("rank-*.facts.jsonl"))]
    return JobFigures(
        usage_of(timeline, sidecars), efficiency_of(timeline, device, top), structure_of(timeline)
    )


def efficiency_of(timeline: Timeline, device: Device | None, top: int) -> Efficiency | None:
    """None of a job on processors none of whose operators shows rates to hold it against."""
    try:
        return summarise_efficiency(timeline, device, top)
    except CostError:
        if device is not None or (timeline.graph.lanes.kind == LaneKind.STREAM).any():
            raise
        return None


def measured(key: Key, run: Path, device: Device) -> Point:
    """`device` is what the processors here reach; a job on GPUs is held against its own."""
    graph = open_run(run)
    if graph.world_size != key.workers:
        raise BenchError(
            f"{key.workload} ran on {graph.world_size} workers, and was to run on {key.workers}; "
            f"give --workers {graph.world_size}, or {{workers}} where its command takes them"
        )
    on_gpus = bool((graph.lanes.kind == LaneKind.STREAM).any())
    seen = figures_of(run, None if on_gpus else device)
    return Point(key, seen.usage, seen.efficiency, seen.structure, observed(seen))
