"""A whole training under a plan, in the place where plans were tried."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from paceline.launch import Process
from paceline.record.launch import hooked
from paceline.strategies import Plan
from paceline.strategies.applying import under
from paceline.trial.places import Place, Ran, Watching, here, logged


@dataclass(frozen=True)
class AppliedRun:
    """A command that is to run to its end under a plan; `folder` keeps what it prints."""

    plan: Plan
    command: tuple[str, ...]
    folder: Path
    place: Place = here
    limit_s: float = 900.0

    def said(self) -> list[str]:
        """The lines that its workers printed."""
        logs = sorted(self.folder.rglob("*.log"))
        return [line for log in logs for line in log.read_text().splitlines()]


def run_to_the_end(run: AppliedRun, environment: Mapping[str, str]) -> Ran:
    """Run it; `Ran` tells how it ended."""
    run.folder.mkdir(parents=True, exist_ok=True)
    given = hooked(under(run.plan, run.folder, environment))
    process = logged(Process(run.command, given), run.folder / "job.log")
    return run.place(process, Watching(lambda: False, lambda: False, run.limit_s))
