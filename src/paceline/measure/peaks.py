"""`Peaks`: what products and memory of this machine reach at best, by element type."""

from collections.abc import Mapping
from dataclasses import dataclass

from paceline.cluster import Device
from paceline.graph.kinds import DeviceKind, DType


@dataclass(frozen=True)
class Peaks:
    """Of one worker with so many threads."""

    machine: str
    threads: int
    flops_per_s: Mapping[str, float]  # by the type's name
    memory_bytes_per_s: float
    date: str  # ISO 8601

    def device(self) -> Device:
        """The machine as a device whose rates are these."""
        return Device(
            name=self.machine,
            kind=DeviceKind.CPU,
            memory_bytes_per_s=self.memory_bytes_per_s,
            units=self.threads,
            flops_per_s={DType[name.upper()]: rate for name, rate in self.flops_per_s.items()},
            source=f"peaks measured here with {self.threads} threads, {self.date}",
        )
