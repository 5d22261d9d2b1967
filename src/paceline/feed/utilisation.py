"""Accelerator utilisation as MLPerf Storage defines it, and what the rest went into.

    AU = computing time / running time, the first step left out

Computing counts as long as a batch takes it alone. While the loop waits for a batch, the wait is
split by what was being done to that batch at the time: nothing yet (its worker was busy with an
earlier one, or had no core), reading, decoding, or handing over, which begins with copying samples
into the batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from paceline.feed.errors import FeedError
from paceline.feed.run import Batch, FeedRun

EXCLUDED: Final = 1
"""Steps at the begin that do not count: loaders start in them."""


@dataclass(frozen=True)
class Utilisation:
    """Shares of the running time; they add up to 1."""

    computing: float  # the accelerator's utilisation
    waiting: float
    reading: float
    decoding: float
    handing_over: float
    slowed: float  # computing that took longer than alone, and the loop's own time
    steps: int
    samples_per_s: float
    bytes_per_s: float

    @property
    def shares(self) -> Mapping[str, float]:
        return {
            "computing": self.computing,
            "waiting": self.waiting,
            "reading": self.reading,
            "decoding": self.decoding,
            "handing over": self.handing_over,
            "slowed": self.slowed,
        }


def utilisation(run: FeedRun) -> Utilisation:
    counted = run.batches[EXCLUDED:]
    if not counted:
        raise FeedError(
            f"the run has {len(run.batches)} steps, of which the first does not count; give more "
            "samples, a smaller batch or more --steps"
        )
    whole = counted[-1].done_ns - run.batches[EXCLUDED - 1].done_ns
    waited = [_waited(batch) for batch in counted]
    found = {name: sum(each[name] for each in waited) / whole for name in waited[0]}
    computing = min(1.0, run.compute_ns * len(counted) / whole)
    read = sum(batch.cost.read_bytes for batch in counted)
    return Utilisation(
        computing=computing,
        **found,
        slowed=max(0.0, 1 - computing - sum(found.values())),
        steps=len(counted),
        samples_per_s=run.description.batch * len(counted) / (whole / 1e9),
        bytes_per_s=read / (whole / 1e9),
    )


def _waited(batch: Batch) -> dict[str, float]:
    """ns of the wait for a batch, by what was done to it."""
    begun = min(max(batch.begun_ns, batch.asked_ns), batch.got_ns)
    ready = min(max(batch.ready_ns, begun), batch.got_ns)
    during, whole = ready - begun, batch.ready_ns - batch.begun_ns
    part = during / whole if whole > 0 else 0.0
    read, decode = batch.cost.read_ns * part, batch.cost.decode_ns * part
    collate = batch.collate_ns * part
    return {
        "waiting": begun - batch.asked_ns + max(0.0, during - read - decode - collate),
        "reading": read,
        "decoding": decode,
        "handing_over": batch.got_ns - ready + collate,
    }
