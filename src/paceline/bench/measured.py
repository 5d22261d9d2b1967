"""A recording of a workload as a `Point`: the same figures as `paceline show RUN --efficiency`."""

from pathlib import Path

from paceline.analyse.efficiency import Efficiency, summarise_efficiency
from paceline.analyse.observations import Seen, observed
from paceline.analyse.structure import structure_of
from paceline.analyse.usage import usage_of
from paceline.bench.point import Key, Point
from paceline.cluster import Device
from paceline.cost.errors import CostError
from paceline.graph import LaneKind
from paceline.record import sidecar
from paceline.replay import Timeline, replay
from paceline.trace.runs import open_run

_SHOWN = 4  # of the costliest operators


def seen_of(run: Path | str, device: Device | None = None, top: int = _SHOWN) -> Seen:
    """All figures of a recorded run, or of any graph."""
    timeline, folder = replay(open_run(run)), Path(run)
    sidecars = [sidecar.read(path) for path in sorted(folder.glob("rank-*.facts.jsonl"))]
    return Seen(
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
    seen = seen_of(run, device)
    return Point(key, seen.usage, seen.efficiency, seen.structure, observed(seen))
