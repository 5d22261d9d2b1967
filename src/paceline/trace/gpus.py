"""Which GPUs a trace's streams ran on, as the trace itself tells: `gpus_of`."""

from paceline.graph import LaneKind, RecordedGpu
from paceline.trace.trace import Trace


def gpus_of(trace: Trace) -> list[RecordedGpu]:
    """Those that the trace's streams ran on. A process that sees only its own numbers it anew."""
    told = trace.facts
    names = told.get("devices", [])
    used = {lane.device for lane in trace.lanes if lane.kind is LaneKind.STREAM}
    rows = {number if number < len(names) else 0 for number in used} if names else set()
    columns = [told.get(f"device_{name}", []) for name in ("memory_bytes", "units", "threads")]
    return [
        RecordedGpu(names[row], *(column[row] if row < len(column) else 0 for column in columns))
        for row in sorted(rows)
    ]
