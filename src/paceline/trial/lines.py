"""What each rank of a trial writes, line by line, as it comes: `rank-<r>.trial.jsonl`.

What a killed worker left is readable up to its last whole line. Durations are nanoseconds.
"""

from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path

import msgspec

from paceline.trial.blocks import TrialBlock


class TrialLine(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="is"):
    """One line of the file."""


class Began(TrialLine, tag="began", frozen=True):
    """The first: which rank this is, and what all ranks agreed to run."""

    rank: int
    world_size: int
    blocks: list[TrialBlock]


class StepLine(TrialLine, tag="step", frozen=True):
    """One optimizer step, from the end of the one before."""

    index: int  # counts from 0 at the job's first optimizer step
    wall_ns: int
    cpu_ns: int  # this process's, all threads
    block: int = 0
    counted: bool = False  # it is not one of those behind a switch


class Loss(TrialLine, tag="loss", frozen=True):
    """The scalar that was differentiated in a step; the mean where there were several."""

    index: int
    value: float


class Reason(str, Enum):
    """Why a rank's file ends."""

    COMPLETE = "complete"  # all blocks ran
    LIMIT = "limit"  # time was up; whole rounds stand
    SHORT = "short"  # the job ended before
    REFUSED = "refused"  # the plan does not fit the live job
    EXCEPTION = "exception"
    FAULT = "fault"  # of the trial's own hooks


class End(TrialLine, tag="end", frozen=True):
    """The last; a killed worker has none."""

    reason: Reason
    kind: str = ""  # class of the exception
    detail: str = ""
    at_ns: int = 0


class RankFile(msgspec.Struct, frozen=True):
    """One rank's lines."""

    began: Began
    steps: tuple[StepLine, ...] = ()
    losses: tuple[Loss, ...] = ()
    end: End | None = None


_TAIL_BYTES = 4096  # more than a last line has
_KINDS = Began | StepLine | Loss | End
encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_KINDS).decode


def file_of(folder: Path, rank: int) -> Path:
    return folder / f"rank-{rank}.trial.jsonl"


def read_all(folder: Path) -> tuple[RankFile, ...]:
    """Every rank's file that has begun, in the order of ranks."""
    read = map(_read, files_of(folder))
    return tuple(sorted((r for r in read if r is not None), key=lambda r: r.began.rank))


def _read(path: Path) -> RankFile | None:
    lines = list(_lines(path))
    began = next((line for line in lines if isinstance(line, Began)), None)
    if began is None:
        return None
    return RankFile(
        began,
        tuple(line for line in lines if isinstance(line, StepLine)),
        tuple(line for line in lines if isinstance(line, Loss)),
        next((line for line in lines if isinstance(line, End)), None),
    )


def _lines(path: Path) -> Iterator[TrialLine]:
    """Whole lines alone: the last may still be under way."""
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    for line in whole.split(b"\n") if whole else ():
        yield _decode(line)


def ended_all(files: Sequence[Path]) -> bool:
    """Whether every rank of the job has written its last line: of a trial's files, or of a
    recording's, which begin and end alike."""
    worlds = [_world_size(path) for path in files]
    return bool(worlds) and len(files) == worlds[0] and all(map(_has_ended, files))


def files_of(folder: Path) -> list[Path]:
    return list(folder.glob("rank-*.trial.jsonl"))


def _world_size(path: Path) -> int:
    """0 where the first line is still under way."""
    with path.open("rb") as file:
        line = file.readline()
    return int(msgspec.json.decode(line)["world_size"]) if line.endswith(b"\n") else 0


def _has_ended(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        last = file.read().rpartition(b"\n")[0].rpartition(b"\n")[2]
    return last.startswith(b'{"is":"end"')
