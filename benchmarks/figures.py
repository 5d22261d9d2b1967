"""What the README's tables hold: which figure of which benchmark, its target, and its peers'.

A row's figure is read from the newest full result; `tables.py` writes it. To show another figure,
add a row. Peers' figures were measured on the same kind of machine or are the published ones.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One figure: where it comes from, what it must reach, and what others reach."""

    label: str
    benchmark: str
    field: str  # a dotted path into the result
    show: Callable[[float], str]
    target: float
    at_least: bool = True  # else at most
    peers: str = ""

    def met(self, value: float) -> bool:
        return value >= self.target if self.at_least else value <= self.target


@dataclass(frozen=True)
class Table:
    """Rows under a head, for one place of the README."""

    first_column: str
    rows: tuple[Row, ...]
    with_peers: bool = True


def _per_second(value: float) -> str:
    return f"{value / 1e6:.3g} million/s" if value >= 1e6 else f"{value / 1e3:.3g} thousand/s"


def _ms(value: float) -> str:
    return f"{value:.3g} ms"


def _seconds(value: float) -> str:
    return f"{value:.3g} s"


def _bytes(value: float) -> str:
    return f"{value:.3g} bytes/op"


_REPLAY_PEERS = (
    "dPRO 34,000 to 98,000/s; vTrain 303,000 to 686,000; ASTRA-sim 38,000 to 45,000; "
    "HTA's critical path 42,000"
)

TABLES: Mapping[str, Table] = {
    "speed": Table(
        "what",
        (
            Row(
                "replay, lanes in recorded order, 211,200 ops",
                "speed/replay",
                "fixed_ops_per_s",
                _per_second,
                25e6,
                peers=_REPLAY_PEERS,
            ),
            Row(
                "replay, lanes by priority, 211,200 ops",
                "speed/replay",
                "priority_ops_per_s",
                _per_second,
                8e6,
                peers=_REPLAY_PEERS,
            ),
            Row(
                "replay, lanes by priority, 10 million ops",
                "speed/replay",
                "priority_10m_ops_per_s",
                _per_second,
                4e6,
            ),
            Row(
                "working memory beyond the graph",
                "speed/replay",
                "bytes_per_op",
                _bytes,
                64,
                at_least=False,
                peers="HTA 3.3 kB an op",
            ),
            Row(
                "one tensor resized at 211,200 ops, exact new step time",
                "speed/replay",
                "edit_ms_median",
                _ms,
                8,
                at_least=False,
                peers="dPRO copies the graph: 1,543 ms",
            ),
            Row(
                "1,000 draws of 211,200 ops",
                "speed/replay",
                "draws_s",
                _seconds,
                30,
                at_least=False,
            ),
            Row(
                "16,384 ranks of that shape, folded",
                "speed/replay",
                "folded_s",
                _seconds,
                1,
                at_least=False,
            ),
            Row(
                "reference in plain Python, 211,200 ops",
                "speed/replay",
                "reference_ops_per_s",
                _per_second,
                300e3,
            ),
        ),
    ),
}
