"""`prove`: run a job in the lab on the predicted cluster, and measure it there."""

import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from paceline.cluster import Cluster, dump
from paceline.record.launch import Order, launch
from paceline.record.runs import build_run
from paceline.record.sidecar import JOB_NAME, Job
from paceline.verify.prediction import VerifyError
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

    command: tuple[str, ...]
    cluster: Cluster
    steps: int = 10
    timeout_s: float = 300.0


def prove(proof: Proof, environment: Mapping[str, str], folder: Path | None = None) -> Measured:
    """Record the job in a lab of the cluster; what it printed is kept with the recording."""
    with tempfile.TemporaryDirectory(prefix="paceline-proof-") as scratch:
        place = folder or Path(scratch) / "run"
        described = Path(scratch) / "cluster.yaml"
        described.write_text(dump(proof.cluster))
        command = (
            *(sys.executable, "-m", "paceline", "lab", "run", "--json"),
            *("--name", f"verify-{Path(scratch).name[-8:]}", "--cluster", str(described)),
            *("--timeout", str(proof.timeout_s), "--", *proof.command),
        )
        done = launch(Order(command, place, proof.steps), environment)
        if done.exit_code:
            raise VerifyError(
                f"the job ended with {done.exit_code} in the lab; its log stands above. "
                f"It was: {' '.join(proof.command)}"
            )
        return measured_run(place, build_run(place))


def recorded_command(run: Path) -> tuple[str, ...]:
    """The training command of a recording, without what placed it: the lab places it anew."""
    path = run / JOB_NAME
    if not path.exists():
        raise VerifyError(f"{run} does not say which command it was; give it after --")
    command = list(msgspec.json.decode(path.read_bytes(), type=Job).command)
    if "lab" in command[:4] and "--" in command:
        command = command[command.index("--") + 1 :]
    return tuple(without_placement(command))


def without_placement(command: Sequence[str]) -> list[str]:
    """A torchrun command without the options that say how many processes run where."""
    if not command or Path(command[0]).name != "torchrun":
        return list(command)
    kept: list[str] = []
    skip = False
    for part in command:
        name = part.split("=", 1)[0]
        if skip:
            skip = False
        elif name in _PLACEMENT:
            skip = _PLACEMENT[name] and "=" not in part
        else:
            kept.append(part)
    return kept
