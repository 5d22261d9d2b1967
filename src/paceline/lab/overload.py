"""More than a port can carry, in a lab: whether its switch drops what is unimportant and no more.

Two senders, one of important packets and one of others, with the marks that the transport gives
packets of one layer. Both have the same priority, so that importance alone tells them apart.
"""

import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from paceline.cluster import Cluster, Device, Host, Link, Switch
from paceline.lab.lab import Lab
from paceline.wire.overload import Carried, Overload, Stream, carried_from_json, to_json
from paceline.wire.switch import Code, tos


@dataclass(frozen=True)
class Load:
    """Shares of the receiver's link that are offered."""

    important: float = 0.5
    other: float = 0.8
    bits_per_s: float = 100e6
    queue_bytes: int = 64_000
    seconds: float = 10.0
    switch: Switch | None = field(default_factory=Switch)
    """None: a queue that treats all alike."""

    def cluster(self) -> Cluster:
        rate = self.bits_per_s / 8
        hosts = tuple(Host(f"h{n}", Device("core")) for n in range(3))
        link = Link(rate, rate, buffer_bytes=self.queue_bytes)
        return Cluster(hosts, link, switch=self.switch)

    def streams(self) -> tuple[Stream, ...]:
        return (
            Stream(tos(Code(1, 7), markable=True), self.important * self.bits_per_s),
            Stream(tos(Code(1, 0), markable=False), self.other * self.bits_per_s),
        )


@dataclass(frozen=True)
class Loaded:
    load: Load
    important: Carried
    other: Carried

    @property
    def offered(self) -> float:
        """Share of the link that was really offered: busy cores may make senders offer less."""
        found = self.important.offered_bits_per_s + self.other.offered_bits_per_s
        return found / self.load.bits_per_s


def overload(load: Load) -> Loaded:
    with (
        Lab(load.cluster()) as lab,
        tempfile.TemporaryDirectory(prefix="paceline-overload-") as folder,
    ):
        file = Path(folder, "overload.json")
        file.write_text(to_json(Overload(load.streams(), load.seconds)))
        command = [sys.executable, "-m", "paceline.wire.overload", str(file)]
        finished = lab.run(command, timeout_s=load.seconds + 120, logs=Path(folder))
        important, other = carried_from_json(finished.text(0))
        return Loaded(load, important, other)
