"""Memory by structure: what the fullest rank holds when it holds most, and at which op that is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from paceline.replay import Timeline
from paceline.replay.memory_by_rank import RankPeak, rank_peaks

NAMES: Final[Mapping[str, str]] = {
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "optimizer state",
    "activations": "activations",
    "temporary": "workspace",
    "communication": "communication buffers",
    "other": "batch",
}
"""What the categories of a graph's memory are called in reports."""


@dataclass(frozen=True)
class Structure:
    """Bytes that torch's allocator has given out; what libraries take by themselves is not in
    it."""

    rank: int
    peak_bytes: int
    parts: Mapping[str, int]  # by name, at the peak
    op: str  # at which it is reached
    phase: str
    layer: str
    watched: str = ""  # in words, which step that is where steps differ

    def share(self, name: str) -> float:
        return self.parts.get(name, 0) / self.peak_bytes if self.peak_bytes else 0.0

    @property
    def largest(self) -> str:
        return max(self.parts, key=lambda name: self.parts[name])

    @property
    def verb(self) -> str:
        """That goes with the largest."""
        return "are" if self.largest.endswith("s") else "is"

    @property
    def place(self) -> str:
        """The op with its phase and layer."""
        where = ", ".join(part for part in (self.phase, self.layer) if part and part != "none")
        return f"{self.op} ({where})" if where else self.op


def structure_of(timeline: Timeline) -> Structure | None:
    """None where the recording does not tell what ops allocate."""
    peaks = rank_peaks(timeline) if timeline.graph.facts.memory else ()
    if not peaks:
        return None
    return _named(max(peaks, key=lambda peak: peak.peak_bytes))


def _named(peak: RankPeak) -> Structure:
    parts = {name: peak.by_category.get(key, 0) for key, name in NAMES.items()}
    held = {name: size for name, size in parts.items() if size}
    said = watched(peak)
    return Structure(peak.rank, peak.peak_bytes, held, peak.op, peak.phase, peak.layer, said)


def watched(peak: RankPeak) -> str:
    """Which step's allocations are told, where the recorded steps differ from it; else empty."""
    if not peak.other_ops:
        return ""
    return (
        f"sizes are those of step {peak.step}: recorded steps run up to "
        f"{100 * peak.other_ops:.2g} % other operators, and may hold more"
    )
