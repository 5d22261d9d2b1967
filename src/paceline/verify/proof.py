"""`prove`: run a job in the lab on the predicted cluster, and measure it there."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.cluster import Cluster
from paceline.lab import Lab, LabError
from paceline.lab.launch import torchrun_words
from paceline.launch import Process
from paceline.record.job import JOB_NAME, InLab, job_of
from paceline.record.launch import RecordRequest, Runner, launch
from paceline.strategies import Plan
from paceline.strategies.applying import under
from paceline.trace.runs import open_run
from paceline.verify.errors import VerifyError
from paceline.verify.verdict import Measured, measured_run

_PLACEMENT = {
    "--nproc-per-node": True,
    "--nproc_per_node": True,
    "--nnodes": True,
    "--node-rank": True,
    "--node_rank": True,
    "--master-addr": True,
    "--master_addr": True,
    "--master-port": True,
    "--master_port": True,
    "--rdzv-backend": True,
    "--rdzv_backend": True,
    "--rdzv-endpoint": True,
    "--rdzv_endpoint": True,
    "--rdzv-id": True,
    "--rdzv_id": True,
    "--standalone": False,
}
"""Options of torchrun that the lab gives itself, and whether each takes a value."""


@dataclass(frozen=True)
class Proof:
    """What to run in the lab."""

    command: tuple[str, ...]  # how torchrun placed it elsewhere does not matter
    cluster: Cluster
    steps: int = 10
    timeout_s: float = 300.0
    overwrite: bool = False  # the recording of an earlier proof
    plan: Plan | None = None  # what the job runs under, beside where it runs


def prove(proof: Proof, environment: Mapping[str, str], folder: Path | None = None) -> Measured:
    """Record the job in a lab of the cluster; what it printed is kept with the recording."""
    with tempfile.TemporaryDirectory(prefix="paceline-proof-") as scratch:
        place = folder or Path(scratch) / "run"
        request = RecordRequest(proof.command, place, proof.steps, overwrite=proof.overwrite)
        given = environment
        if proof.plan is not None:
            given = under(proof.plan, Path(scratch), environment)
        try:
            launch(request, given, recorded_in_lab(proof, place / "logs"))
        except LabError as error:
            raise VerifyError(
                f"{' '.join(proof.command)} was not measured in the lab. {error}"
            ) from error
        return measured_run(place, open_run(place))


def recorded_in_lab(proof: Proof, logs: Path) -> Runner:
    """Runs the job on every worker of a lab that stands as long as the job."""

    def run(process: Process) -> int:
        given = process.environment or {}
        own = {name: value for name, value in given.items() if os.environ.get(name) != value}
        command = without_placement(process.command)
        with Lab(proof.cluster, f"verify-{os.getpid()}") as lab:
            lab.run(command, timeout_s=proof.timeout_s, environment=own, logs=logs)
        return 0

    return run


def recorded_command(run: Path) -> tuple[str, ...]:
    """The training command of a recording."""
    if not (run / JOB_NAME).exists():
        raise VerifyError(f"{run} does not say which command it was; give it after --")
    job = job_of(run)
    return tuple(job.launched.command if isinstance(job.launched, InLab) else job.command)


def without_placement(command: Sequence[str]) -> list[str]:
    """A torchrun command without the options that say how many processes run where."""
    words = torchrun_words(command) if command else 0
    if not words:
        return list(command)
    kept = list(command[:words])
    skip = False
    for part in command[words:]:
        name = part.split("=", 1)[0]
        if skip:
            skip = False
        elif name in _PLACEMENT:
            skip = _PLACEMENT[name] and "=" not in part
        else:
            kept.append(part)
    return kept
