"""Why a job did not go on under a plan."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.trial.lines import End, RankFile, Reason
from paceline.trial.outcome import Finding
from paceline.trial.places import Ending, Ran

VMSTAT = Path("/proc/vmstat")
_KINDS = {"OutOfMemoryError", "MemoryError"}
_ALLOCATOR = "can't allocate memory"
"""What torch's allocator for processors says: its error is a plain RuntimeError."""


@dataclass(frozen=True)
class Failure:
    """What happened, and the cause in words."""

    finding: Finding
    cause: str


def failure_of(ran: Ran, ranks: Sequence[RankFile], kills: int, hang_s: float) -> Failure | None:
    """None where the job ran as far as it was to, or ended by itself as it should."""
    ends = [(one.began.rank, one.end) for one in ranks if one.end is not None]
    ends.sort(key=lambda pair: pair[1].at_ns)  # the first is the cause, others follow from it
    for rank, end in ends:
        if end.reason in _SAID:
            return Failure(_SAID[end.reason], f"rank {rank}: {end.detail}")
    thrown = [(rank, end) for rank, end in ends if end.reason is Reason.EXCEPTION]
    if ran.ending is Ending.ENOUGH and not thrown:
        return None
    short = [(rank, end) for rank, end in thrown if _lacks_memory(end)]
    if short:
        return Failure(Finding.OUT_OF_MEMORY, _told(*short[0]))
    if kills:
        return Failure(
            Finding.OUT_OF_MEMORY, f"the kernel killed {kills} processes for want of memory"
        )
    if ran.ending is Ending.HUNG:
        return Failure(Finding.HUNG, f"no step ended within {hang_s:g} s")
    if thrown:
        return Failure(Finding.CRASHED, _told(*thrown[0]))
    return Failure(Finding.CRASHED, _last_words(ran)) if ran.exit_code else None


def oom_kills(file: Path = VMSTAT) -> int:
    """Processes that the kernel has killed for want of memory; 0 where it does not count."""
    if not file.exists():
        return 0
    found = re.search(r"^oom_kill (\d+)$", file.read_text(), re.MULTILINE)
    return int(found[1]) if found else 0


def _lacks_memory(end: End) -> bool:
    return end.kind in _KINDS or _ALLOCATOR in end.detail


def _told(rank: int, end: End) -> str:
    return f"rank {rank}: {end.kind}: {end.detail}" if end.detail else f"rank {rank}: {end.kind}"


def _last_words(ran: Ran) -> str:
    return f"it ended with {ran.exit_code}. {ran.said}".strip()


_SAID = {Reason.REFUSED: Finding.REFUSED, Reason.FAULT: Finding.CRASHED}
