"""Who is timed beside whom in the lab: TCP's congestion controls, and the transport with parts of
it switched off. Plain values, which cross to the lab's processes as JSON."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from typing import Any

from paceline.wire.settings import Patience, Tuning


@dataclass(frozen=True)
class Contender:
    """One way of carrying the same bytes. `congestion` names TCP's; empty: our transport."""

    name: str
    congestion: str = ""
    gloo: bool = False  # TCP under gloo, not under sockets of our own
    budget: float = 0.0  # share of a tensor that may be lost
    paced: bool = True
    reacts: bool = True  # to marks and losses
    windowed: bool = True  # the receiver limits what is under way to it
    stops_at_gaps: bool = True  # else only behind a sender that is done
    segments: int = 1
    important: float = 0.1  # share of packets that must arrive, and are marked so; 0: none says
    overlapped: bool = False  # of a parameter server: parts are pulled while others are pushed

    @property
    def is_tcp(self) -> bool:
        return bool(self.congestion)

    def tuning(self, link_bits_per_s: float, window_bytes: int) -> Tuning:
        patience = Patience() if self.stops_at_gaps else Patience(gap_ms=60_000)
        return Tuning(
            link_bits_per_s=link_bits_per_s if self.paced or self.windowed else 1e10,
            window_bytes=window_bytes if self.windowed else 1 << 30,
            segments=self.segments,
            paced=self.paced,
            reacts=self.reacts,
            patience=patience,
        )


CONTROLS = ("reno", "cubic", "bbr")
TCP = tuple(Contender(f"TCP {name}", congestion=name) for name in CONTROLS)
GLOO = tuple(Contender(f"gloo, TCP {name}", congestion=name, gloo=True) for name in CONTROLS)
LOSSLESS = Contender("transport, no loss allowed")
ONE_PERCENT = Contender("transport, 1 % may be lost", budget=0.01)
TEN_PERCENT = Contender("transport, 10 % may be lost", budget=0.1)


def overlapped(contender: Contender) -> Contender:
    """The same in a parameter server that hands parts out while others still come."""
    return replace(contender, name=f"{contender.name}, overlapped", overlapped=True)


def at_hand(contenders: Iterable[Contender]) -> list[Contender]:
    """Those that this machine can run: gloo comes with torch."""
    return [one for one in contenders if not one.gloo or find_spec("torch") is not None]


MAIN = (*TCP, *GLOO, LOSSLESS, ONE_PERCENT, TEN_PERCENT)
ABLATIONS = (
    replace(TEN_PERCENT, name="10 %, without pacing", paced=False),
    replace(TEN_PERCENT, name="10 %, without the window", windowed=False),
    replace(TEN_PERCENT, name="10 %, without a reaction to loss", reacts=False),
    replace(TEN_PERCENT, name="10 %, no stop at gaps", stops_at_gaps=False),
    replace(TEN_PERCENT, name="10 %, nothing is important", important=0.0),
    replace(
        LOSSLESS, name="no loss allowed, no pacing, no window", paced=False, windowed=False,
    ),
    replace(TEN_PERCENT, name="10 %, batched by the kernel", segments=8),
)  # fmt: skip
"""Each part switched off in turn."""


@dataclass(frozen=True)
class Rounds:
    """What every contender does: so many senders, so many bytes each, so often."""

    senders: int
    size_bytes: int
    rounds: int
    link_bits_per_s: float
    window_bytes: int
    block: int = 10  # rounds of one contender before the next has its turn
    port: int = 29_600


@dataclass(frozen=True)
class Timed:
    """One contender's rounds, as the receiver saw them: from asking until the slowest was done."""

    contender: Contender
    round_ns: tuple[int, ...]
    missing_bytes: tuple[int, ...]
    counters: dict[str, int]


def to_json(rounds: Rounds, contenders: Iterable[Contender]) -> dict[str, Any]:
    return {"rounds": asdict(rounds), "contenders": [asdict(c) for c in contenders]}


def from_json(told: dict[str, Any]) -> tuple[Rounds, list[Contender]]:
    return Rounds(**told["rounds"]), [Contender(**c) for c in told["contenders"]]


def timed_to_json(timed: Iterable[Timed]) -> list[dict[str, Any]]:
    return [asdict(one) for one in timed]


def timed_from_json(told: list[dict[str, Any]]) -> list[Timed]:
    return [
        Timed(
            Contender(**one["contender"]),
            tuple(one["round_ns"]),
            tuple(one["missing_bytes"]),
            one["counters"],
        )
        for one in told
    ]
