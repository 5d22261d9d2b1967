"""Squared lengths of a live job's gradients, before and behind the exchange, from a short run.

The job is started as it is, with a probe in every process (`torch_gradients`), and ended when it
has shown enough. What the noise of gradients says of other batches is found in `learn.noise`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from paceline.launch import Process
from paceline.learn.noise import Norms
from paceline.record.launch import hooked
from paceline.trial.errors import TrialError
from paceline.trial.lines import ended_all
from paceline.trial.places import Ending, Place, Watching, here, logged
from paceline.trial.running import START_S, Patience, grows

VARIABLE = "PACELINE_GRADIENTS"


class ProbeSettings(msgspec.Struct, frozen=True):
    """What each process is told."""

    folder: str
    steps: int


class GradientLine(msgspec.Struct, frozen=True, tag_field="is"):
    """One line of a rank's file."""


class Began(GradientLine, tag="began", frozen=True):
    rank: int
    world_size: int


class GradientStep(GradientLine, tag="step", frozen=True):
    """Squared lengths of one step's gradients; `passes` of the script add up to one step."""

    index: int
    alone: float  # of this rank's, mean over its passes
    mean: float  # of the mean over all ranks and passes
    passes: int


class End(GradientLine, tag="end", frozen=True):
    reason: str


@dataclass(frozen=True)
class GradientRun:
    """What to run, where its files are kept, and over how many steps."""

    command: tuple[str, ...]
    folder: Path
    steps: int = 50
    patience: Patience = field(default_factory=Patience)


@dataclass(frozen=True)
class SeenGradients:
    """Of every step that all ranks saw."""

    norms: tuple[Norms, ...]
    workers: int


def gradients_of(
    run: GradientRun, environment: Mapping[str, str], place: Place = here
) -> SeenGradients:
    """Run the job until every rank has shown its steps."""
    run.folder.mkdir(parents=True, exist_ok=True)
    for old in _files(run.folder):
        old.unlink()
    told = msgspec.json.encode(ProbeSettings(str(run.folder.resolve()), run.steps)).decode()
    process = Process(run.command, {**hooked(environment), VARIABLE: told})
    watching = Watching(
        lambda: ended_all(_files(run.folder)),
        grows(run.folder, run.patience.hang_s),
        run.patience.limit_s + START_S,
    )
    ran = place(logged(process, run.folder / "job.log"), watching)
    found = seen(run.folder)
    if not found.norms:
        raise TrialError(_nothing(run, ran.ending, ran.said))
    return found


def seen(folder: Path) -> SeenGradients:
    """What the ranks wrote; whole lines alone."""
    ranks = [_lines(path) for path in _files(folder)]
    begun = [lines[0] for lines in ranks if lines and isinstance(lines[0], Began)]
    if not begun or len(ranks) < begun[0].world_size:
        return SeenGradients((), begun[0].world_size if begun else 0)
    steps = [[line for line in lines if isinstance(line, GradientStep)] for lines in ranks]
    return SeenGradients(tuple(map(_norms, zip(*steps))), begun[0].world_size)


def file_of(folder: Path, rank: int) -> Path:
    return folder / f"rank-{rank}.gradients.jsonl"


def _norms(ranks: Sequence[GradientStep]) -> Norms:
    """One step's."""
    alone = sum(rank.alone for rank in ranks) / len(ranks)
    return Norms(alone, ranks[0].mean, len(ranks) * ranks[0].passes)


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("rank-*.gradients.jsonl"))


def _lines(path: Path) -> list[GradientLine]:
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    return [_decode(line) for line in whole.split(b"\n")] if whole else []


_decode = msgspec.json.Decoder(Began | GradientStep | End).decode
encode = msgspec.json.Encoder().encode


def _nothing(run: GradientRun, ending: Ending, said: str) -> str:
    log = run.folder / "job.log"
    if said:
        return f"the job failed before its gradients were seen. {said}"
    if ending is Ending.HUNG:
        return f"the job made no step in time; what it printed is in {log}"
    return (
        "no optimizer step was seen in the job's Python processes, or not on every rank (what it "
        f"printed is in {log}); let it train for {run.steps + 1} steps or more"
    )
