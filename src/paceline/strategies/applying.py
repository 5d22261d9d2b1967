"""Run a training command under a plan, with no change to the script; on request recorded too.

The plan travels in environment variables: `PACELINE_PLAN` (its file), `PACELINE_PLAN_REPORT` (a
folder for what each rank sent), and `PYTHONPATH`, as for the recorder.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from paceline.launch import LaunchError, Process
from paceline.record.launch import Recording, RecordRequest, here, hooked, launch
from paceline.strategies.plan import Plan, save_plan

PLAN, REPORT = "PACELINE_PLAN", "PACELINE_PLAN_REPORT"


@dataclass(frozen=True)
class RankSent:
    """What a rank handed over in a mean exchange of gradients under the plan."""

    rank: int
    steps: int  # of the job's optimizer
    calls: float
    payload_bytes: float
    wire_bytes: float
    codec_ns: float
    step_ns: float = 0.0  # its latest steps; 0 where the plan tells no prediction
    stale: str = ""  # why the plan no longer fits the job


@dataclass(frozen=True)
class Applied:
    """How a job under a plan ended."""

    exit_code: int
    ranks: tuple[RankSent, ...]
    recording: Recording | None = None


def run_applied(
    plan: Plan,
    command: Sequence[str],
    environment: Mapping[str, str],
    record_to: Path | None = None,
    *,
    forced: bool = False,
) -> Applied:
    """Run the command to its end under the plan. Forced: whatever job it was made for."""
    if not command:
        raise LaunchError(
            "nothing to run: give the training command after --, as in "
            "`paceline apply plan.json -- torchrun --nproc-per-node 2 train.py`"
        )
    for change in plan.strategies:
        change.require_live()
    with TemporaryDirectory(prefix="paceline-plan-") as folder:
        wanted = replace(plan, made_for=None) if forced else plan
        given = {**under(wanted, Path(folder), environment), REPORT: folder}
        if record_to is None:
            code = here(Process(tuple(command), hooked(given), reads=True))
            return Applied(code, _sent(Path(folder)))
        done = launch(RecordRequest(tuple(command), record_to), given)
        return Applied(done.exit_code, _sent(Path(folder)), done)


def under(plan: Plan, folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a recorded job that is to run under the plan, whose file the folder keeps
    for as long as the job runs."""
    file = folder / "plan.json"
    save_plan(plan, file)
    return {**environment, PLAN: str(file)}


def _sent(folder: Path) -> tuple[RankSent, ...]:
    told = [RankSent(**json.loads(file.read_text())) for file in folder.glob("rank-*.json")]
    return tuple(sorted(told, key=lambda sent: sent.rank))
