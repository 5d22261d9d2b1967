"""The stages of benchmarks/accuracy/pipeline.py as workers of the lab, over links of a given rate.

Predicted from the profile that the stages were given, and from the cluster's YAML, which stands the
lab up too. Of the machine it takes three facts that are no measurements of a pipeline: the
processor time of a byte over TCP (`paceline.measure.shared_cores`, measured before), how much of
it the sender's thread spends, and a message's fixed delay (`paceline.cluster.machine.Machine`).
"""

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.accuracy import cells
from paceline.cluster import Cluster, dump, parse
from paceline.cluster.machine import Machine
from paceline.cluster.tcp import over_tcp
from paceline.errors import PacelineError
from paceline.lab import Lab, said
from paceline.measure import shared_cores
from paceline.place.pipeline import LayerCost, PipelinePlan, Priced, price_in_lab

SEND_NS_PER_BYTE = 1.1
"""`isend` writes into the socket at once where the receiver has asked: 256 KB in 0.2 to 0.4 ms."""

SCRIPT = Path(__file__).parent / "jobs" / "stages.py"


def why_not() -> str:
    """Why no lab stands up here, in words; empty where one does."""
    try:
        with Lab(described(2, 1000)):
            return ""
    except PacelineError as refused:
        return str(refused)


def described(stages: int, mbit: int) -> Cluster:
    """What the YAML says: one host a stage around a switch, the same rate both ways."""
    return parse(dump(cells.cluster(stages, mbit)))


def measure(
    stages: int, mbit: int, job: Sequence[int], settings: dict[str, str]
) -> tuple[dict[str, list[float]], dict[str, list[int]]]:
    """ns of the steps, and the bytes that each stage holds, by schedule."""
    command = [*cells.FIRST, sys.executable, str(SCRIPT), "seat", *map(str, (stages, *job))]
    with (
        tempfile.TemporaryDirectory() as folder,
        Lab(described(stages, mbit)) as lab,
    ):
        done = lab.run(command, timeout_s=150, environment=settings, logs=Path(folder))
        said = [_answer(done.text(worker)) for worker in range(stages)]
    held = {name: [one["held"][name] for one in said] for name in said[0]["held"]}
    return said[0]["steps"], held


def machine(tries: int) -> Machine:
    """This machine's part of the prediction; the rest of it is profiled with the stages. The least
    of some tries: others on the machine can only add to it."""
    found = [shared_cores(said, prefix=cells.FIRST) for _ in range(tries)]
    cpu = min(one.cpu_ns_per_byte.value for one in found)
    return Machine(1.0, cpu, send_ns_per_byte=SEND_NS_PER_BYTE)


def predict(plan: PipelinePlan, stages: Sequence[LayerCost], mbit: int, machine: Machine) -> Priced:
    """From the stages' costs, the cluster and the machine."""
    cluster = over_tcp(described(len(stages), mbit))
    return price_in_lab(plan, stages, cluster, machine, batches=6)


def _answer(log: str) -> Any:
    """The worker's last line that is an object; gloo may have written others."""
    return json.loads([line for line in log.splitlines() if line.startswith("{")][-1])
