"""`Completions`: when each flow ended, and what the fabric did to its packets."""

from dataclasses import dataclass, fields

import numpy as np

from paceline.graph.graph import Int64
from paceline.wire.errors import WireError


@dataclass(frozen=True)
class Counts:
    """Packets, all flows together. What was sent arrived, was dropped or is still under way."""

    events: int
    sent: int
    arrived: int
    dropped_unimportant: int
    dropped_important: int
    dropped_control: int
    marked: int
    under_way: int
    end_ns: int  # when the last flow ended, or the limit

    @property
    def dropped(self) -> int:
        return self.dropped_unimportant + self.dropped_important + self.dropped_control


@dataclass(frozen=True, eq=False)
class Completions:
    """One row per flow, one per port, and the counts."""

    start_ns: Int64
    end_ns: Int64  # -1 where the simulation's limit came first
    missing_packets: Int64  # that a flow did without
    sent_packets: Int64  # of data, with those sent again
    peak_bytes: Int64  # of each port's queue
    queue_byte_ns: Int64  # of each port: bytes in its queue, summed over time
    counts: Counts

    @property
    def unfinished(self) -> int:
        return int((self.end_ns < 0).sum())

    @property
    def times_ns(self) -> Int64:
        """Flow completion times."""
        if self.unfinished:
            raise WireError(
                f"{self.unfinished} of {len(self.end_ns)} flows did not end within the limit of "
                f"{self.counts.end_ns} ns; give a longer one (until_ns)"
            )
        return self.end_ns - self.start_ns

    def tail_ns(self, share: float = 0.99) -> float:
        return float(np.quantile(self.times_ns, share))

    @property
    def mean_queue_bytes(self) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
        """Of each port, over the whole time."""
        return self.queue_byte_ns / max(1, self.counts.end_ns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Completions) and all(
            np.array_equal(getattr(self, f.name), getattr(other, f.name))
            for f in fields(self)
            if f.name != "counts"
        ) and self.counts == other.counts  # fmt: skip
