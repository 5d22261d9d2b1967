"""An incast in a lab: senders and one receiver on a star of shaped links with short queues, TCP's
congestion controls and the transport in turn, over the identical queues."""

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from paceline.cluster import Cluster, Device, Host, LeafSpine, Link, Star, Switch, Transport
from paceline.lab.errors import LabError
from paceline.lab.lab import Lab
from paceline.lab.layout import Layout, Stack
from paceline.wire.contenders import Contender, Rounds, Timed, timed_from_json, to_json

UDP_SHARE = 1472 / 1514
"""Of a link's rate, what datagrams without a header of ours can carry."""


@dataclass(frozen=True)
class Setting:
    """What everyone meets. `loss` is what a packet meets on its whole way, over two cables: each by
    itself, or all of `loss_burst_ms`."""

    senders: int = 4
    size_bytes: int = 500_000
    bits_per_s: float = 100e6
    queue_bytes: int = 64_000
    loss: float = 0.0
    loss_burst_ms: int = 0
    rto_min_ms: int = 5
    paths: int = 0  # 0: a star; else hosts on leaves of their own, joined by so many spines that
    # share a host's rate, and packets with marks are sprayed

    def __post_init__(self) -> None:
        if self.senders < 1 or self.size_bytes < 4 or self.size_bytes % 4:
            raise LabError(
                f"{self.senders} senders of {self.size_bytes} bytes were asked for; give at least "
                "one sender, and a multiple of 4 bytes"
            )

    @property
    def ideal_ns(self) -> float:
        """A round in which the receiver's link carries all bytes and never rests."""
        return self.needed_ns(self.senders * self.size_bytes)

    def needed_ns(self, size_bytes: float) -> float:
        return 8e9 * size_bytes / (self.bits_per_s * UDP_SHARE)

    def cluster(self) -> Cluster:
        rate = self.bits_per_s / 8
        link = Link(rate, rate, loss=self.loss / 2, buffer_bytes=self.queue_bytes)
        hosts = tuple(Host(f"h{n}", Device("core")) for n in range(self.senders + 1))
        topology = LeafSpine(hosts_per_leaf=1, spines=self.paths) if self.paths else Star()
        switch = Switch(spray=True) if self.paths else None
        return Cluster(hosts, link, topology, Transport(gso_max_segs=1), switch=switch)

    @property
    def window_bytes(self) -> int:
        """What may be under way to a host: below what its port's queue, or those of all paths to
        it, take of the packets that matter least."""
        switch = self.cluster().switch
        return int(self.queue_bytes * (self.paths * switch.drop if switch else 15 / 16))

    def stack(self) -> Stack:
        return Stack(gso_max_segs=1, rto_min_ms=self.rto_min_ms, loss_burst_ms=self.loss_burst_ms)


@dataclass(frozen=True)
class IncastRow:
    """One contender's rounds. `ideal_ms` is of the bytes that it needed: all but what it did
    without."""

    name: str
    is_tcp: bool
    budget: float
    rounds: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    ideal_ms: float
    lost_share: float  # of the values, done without

    @property
    def p99_of_ideal(self) -> float:
        return self.p99_ms / self.ideal_ms


def summary(setting: Setting, timed: Timed) -> IncastRow:
    taken = sorted(timed.round_ns)
    size = setting.senders * setting.size_bytes
    lost = sum(timed.missing_bytes) / len(taken) / size
    return IncastRow(
        timed.contender.name, timed.contender.is_tcp, timed.contender.budget, len(taken),
        p50_ms=_at(taken, 0.5) / 1e6, p99_ms=_at(taken, 0.99) / 1e6, max_ms=taken[-1] / 1e6,
        ideal_ms=setting.needed_ns(size * (1 - lost)) / 1e6,
        lost_share=lost,
    )  # fmt: skip


def _at(ordered: Sequence[int], share: float) -> int:
    """The smallest value that so many are not above."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


def incast(
    setting: Setting, contenders: Sequence[Contender], rounds: int, timeout_s: float = 3600.0
) -> list[Timed]:
    """Every contender's rounds, timed in one lab."""
    wanted = Rounds(
        setting.senders, setting.size_bytes, rounds, setting.bits_per_s, setting.window_bytes
    )
    with (
        Lab(setting.cluster(), stack=setting.stack()) as lab,
        tempfile.TemporaryDirectory(prefix="paceline-incast-") as folder,
    ):
        file = Path(folder, "rounds.json")
        file.write_text(json.dumps(to_json(wanted, contenders)))
        command = [sys.executable, "-m", "paceline.wire.incast", str(file)]
        told = lab.run(
            command, timeout_s=timeout_s, environment=hosts_told(lab.layout), logs=Path(folder)
        )
        return timed_from_json(json.loads(told.answer(0)))


def hosts_told(layout: Layout) -> dict[str, str]:
    """Where each rank is, as processes in a lab are told."""
    addresses = [layout.address(node) for node in layout.places]
    return {"PACELINE_INCAST_HOSTS": ",".join(addresses)}
