"""`prove`: run a job in the lab on the predicted cluster, and measure it there."""

import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from paceline.cluster import Cluster, dump
from paceline.lab.launch import torchrun_words
from paceline.record.launch import Order, launch
from paceline.record.sidecar import JOB_NAME, Job
from paceline.trace.runs import build_run
from paceline.verify.errors import VerifyError
from paceline.verify.verdict import Measured, measured_run

_SHOWN = 2000  # characters of a failed job's output
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


def prove(proof: Proof, environment: Mapping[str, str], folder: Path | None = None) -> Measured:
    """Record the job in a lab of the cluster; what it printed is kept with the recording."""
    with tempfile.TemporaryDirectory(prefix="paceline-proof-") as scratch:
        place = folder or Path(scratch) / "run"
        described = Path(scratch) / "cluster.yaml"
        described.write_text(dump(proof.cluster))
        command = (
            *(sys.executable, "-m", "paceline", "lab", "run", "--json"),
            *("--name", f"verify-{Path(scratch).name[-8:]}", "--cluster", str(described)),
            *("--timeout", str(proof.timeout_s), "--", *without_placement(proof.command)),
        )
        printed = place / "output.txt"
        order = Order(command, place, proof.steps, overwrite=proof.overwrite, output=printed)
        done = launch(order, environment)
        if done.exit_code:
            raise VerifyError(
                f"the job ended with {done.exit_code} in the lab. It was: "
                f"{' '.join(proof.command)}; it printed last:\n"
                f"{printed.read_text(errors='replace')[-_SHOWN:]}"
            )
        return measured_run(place, build_run(place))


def recorded_command(run: Path) -> tuple[str, ...]:
    """The training command of a recording."""
    path = run / JOB_NAME
    if not path.exists():
        raise VerifyError(f"{run} does not say which command it was; give it after --")
    command = list(msgspec.json.decode(path.read_bytes(), type=Job).command)
    if "lab" in command[:4] and "--" in command:
        command = command[command.index("--") + 1 :]
    return tuple(command)


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
