"""`LatencyModel`: coefficients by kind of call, and what they say of a network."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from paceline.cost.errors import CostError
from paceline.cost.network.terms import CallKind, Terms, kind_of, terms_of
from paceline.graph.work import Recorded


@dataclass(frozen=True, eq=False)
class MeasuredNetwork:
    """A network that ran here: `call_ns` are its calls' times while each was watched, `latency_ns`
    the whole forward pass while none was."""

    name: str
    calls: tuple[Recorded, ...]
    call_ns: tuple[int, ...]
    latency_ns: int

    def __post_init__(self) -> None:
        if len(self.calls) != len(self.call_ns):
            raise CostError(
                f"{self.name} has {len(self.calls)} calls and {len(self.call_ns)} times of them"
            )


@dataclass(frozen=True, eq=False)
class LatencyModel:
    """What was learned of a machine."""

    coefficients: Mapping[CallKind, Terms]
    shares: Mapping[CallKind, float]  # of a call's time that a whole pass shows, by kind
    between_ns: float  # of each call, outside it
    peak_flops_per_s: float = 0.0  # of large products, measured
    networks: tuple[str, ...] = field(default=())  # that it was learned from
    error: float = 0.0  # of these, each left out in turn: the mean relative one

    def latency_ns(self, calls: Sequence[Recorded]) -> float:
        parts = self.by_kind_ns(calls)
        return sum(parts.values()) + self.between_ns * len(calls)

    def by_kind_ns(self, calls: Sequence[Recorded]) -> dict[CallKind, float]:
        found: dict[CallKind, float] = defaultdict(float)
        for call in calls:
            kind = kind_of(call)
            found[kind] += self.call_ns(call) * self.shares.get(kind, 1.0)
        return dict(found)

    def call_ns(self, call: Recorded) -> float:
        """Calls of a kind that was never measured cost what others of their bytes do."""
        known = self.coefficients.get(kind_of(call))
        if known is None:
            rest = self.coefficients[CallKind.OTHER]
            size = [1.0, call.work.read_bytes, call.work.written_bytes, 0.0]
            return float(rest @ np.array(size))
        return float(known @ terms_of(call))

    def utilisation(self, calls: Sequence[Recorded]) -> float:
        return utilisation(network_flops(calls), self.latency_ns(calls), self.peak_flops_per_s)


def network_flops(calls: Sequence[Recorded]) -> int:
    """Arithmetic of products and convolutions, a multiplication and an addition counted as two."""
    products = (CallKind.POINT, CallKind.DENSE, CallKind.GROUPED, CallKind.DEPTHWISE,
                CallKind.MATRIX)  # fmt: skip
    return sum(call.work.flops for call in calls if kind_of(call) in products)


def utilisation(flops: int, latency_ns: float, peak_flops_per_s: float) -> float:
    """Achieved operations per second over the measured peak; 0 where the peak is not known."""
    if not peak_flops_per_s:
        return 0.0
    return flops / (latency_ns / 1e9) / peak_flops_per_s
