"""The loop's first step: the job recorded until there are steps enough, and then ended.

Beside the recorder runs a watch that notes the losses, by which a trial's losses are judged.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from paceline.graph import Graph
from paceline.launch import Process
from paceline.machine.steadiness import deviation
from paceline.record import sidecar
from paceline.record.launch import RecordRequest, launch
from paceline.trace.plain import plain_steps
from paceline.trace.runs import open_run
from paceline.trial import Ending, Place, Ran, Watching, logged
from paceline.trial.lines import ended_all, read_all
from paceline.trial.running import START_S, grows
from paceline.trial.series import series_of
from paceline.trial.settings import TrialSettings, environment_of
from paceline.tune.errors import TuneError

PLAIN = 10  # steps without instruments, before the recorded ones and again after them
STEPS = 10


@dataclass(frozen=True, eq=False)
class Recorded:
    """A job as it is."""

    graph: Graph
    folder: Path
    plain_ns: tuple[int, ...]  # steps without instruments
    losses: Mapping[int, float]  # by step; empty where none was seen

    @property
    def deviation(self) -> float:
        """Of a step, relative."""
        return deviation(self.plain_ns)


def recorded(
    command: tuple[str, ...],
    folder: Path,
    environment: Mapping[str, str],
    place: Place,
    limit_s: float,
    hang_s: float,
) -> Recorded:
    """Record the job; it is ended as soon as every rank has closed its recording."""
    watched = folder / "watch"
    ran: list[Ran] = []

    def run(process: Process) -> int:
        stuck = grows(folder, max(START_S, hang_s))
        watching = Watching(lambda: ended_all(_facts(folder)), stuck, limit_s)
        ran.append(place(logged(process, folder / "job.log"), watching))
        return ran[0].exit_code

    given = {**environment, **environment_of(TrialSettings(str(watched.resolve())))}
    begun = time.monotonic()
    done = launch(RecordRequest(command, folder, STEPS, PLAIN, overwrite=True), given, run)
    if not done.ranks or not any(rank.recorded for rank in done.ranks):
        raise TuneError(_nothing(ran[0], folder, time.monotonic() - begun))
    if ran[0].exit_code:
        raise TuneError(f"the job failed as it is, without any plan. {ran[0].said}")
    sidecars = [sidecar.read(path) for path in _facts(folder)]
    losses = {s.index: s.value for one in read_all(watched)[:1] for s in one.losses}
    return Recorded(open_run(folder), folder, tuple(plain_steps(sidecars)), _mean(watched, losses))


def _mean(watched: Path, alone: Mapping[int, float]) -> dict[int, float]:
    """Over the ranks, of each step; the first step has a loss and no length."""
    series = series_of(read_all(watched))
    return {**alone, **{s.index: s.loss for s in series.steps if s.loss is not None}}


def _facts(folder: Path) -> list[Path]:
    return sorted(folder.glob("rank-*.facts.jsonl"))


def _nothing(ran: Ran, folder: Path, taken_s: float) -> str:
    log = folder / "job.log"
    if ran.exit_code:
        return f"the job failed before a step was recorded. {ran.said}"
    if ran.ending is Ending.HUNG:
        return (
            f"no step was recorded within {taken_s:.0f} s (what the job printed is in {log}). Give "
            "it more time (--budget), or look at what it waits for"
        )
    return (
        f"nothing was recorded: the job ended after {taken_s:.0f} s with too few optimizer steps "
        f"in its Python processes (about {2 * PLAIN + STEPS + 15} are needed; what it printed is "
        f"in {log}). Let it train for longer"
    )
