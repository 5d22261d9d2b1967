"""Predicted against measured iteration times of Megatron-LM on 2 to 512 A100 GPUs.

The data are the published half of vTrain's measurements. No profile of that machine is used: the
A100's datasheet, typical efficiencies, and five rows to calibrate seven coefficients (each held
near what is typical). The five rows are chosen by arithmetic per GPU and micro-batch alone, never
by error: the quartiles of the single-node rows (25, 50, 75 %), and 25 and 75 % of the multi-node
ones. All other rows are the test. Single-node jobs keep activations, multi-node jobs recompute
them, as their sizes force them to; nodes have four 200 Gbit/s NICs.
"""

import os
import sys
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import measure  # noqa: E402
from paceline.cluster import Cluster, parse  # noqa: E402
from paceline.cost import NCCL, Efficiency, Rates, prices  # noqa: E402
from paceline.cost.fit import Coefficient, fit_coefficients  # noqa: E402
from paceline.graph import Graph  # noqa: E402
from paceline.graph.transformer import (  # noqa: E402
    Degrees,
    Described,
    Recompute,
    Training,
    Transformer,
    describe,
)
from paceline.replay import replay  # noqa: E402

SHARED = Path(os.environ.get("PACELINE_SHARED", ROOT.parent / "shared"))
COEFFICIENTS = (
    Coefficient("arithmetic", 0.65, 0.3, most=1.0),
    Coefficient("memory", 0.70, 0.3, most=1.0),
    Coefficient("ramp_ns", 8_000, 1.5),
    Coefficient("launch_ns", 25_000, 1.0),
    Coefficient("fabric", 0.75, 0.2, most=1.0),
    Coefficient("network", 0.70, 0.5, most=1.0),
    Coefficient("call_ns", 20_000, 1.0),
)
SINGLE_QUANTILES, MULTI_QUANTILES = (0.25, 0.5, 0.75), (0.25, 0.75)


@dataclass(frozen=True)
class Row:
    """One measured job."""

    job: Described
    work: float  # arithmetic per GPU and micro-batch, in arbitrary units
    measured_ms: float
    text: str

    @cached_property
    def drawn(self) -> list[tuple[int, Graph]]:
        """The job's graph; or, where it has many micro-batches, two shorter ones.

        Once the pipeline is full every further micro-batch takes the same time, so the step of
        many follows from two smaller numbers of them, 2 and 3 for each stage.
        """
        job, stages = self.job, self.job.degrees.pipeline
        few = [2 * stages, 3 * stages]
        counts = few if job.microbatches > few[1] else [job.microbatches]
        return [(count, self._graph(count)) for count in counts]

    def _graph(self, microbatches: int) -> Graph:
        job = self.job
        batch = microbatches * job.degrees.data * job.training.micro_batch
        training = replace(job.training, global_batch=batch)
        return describe(job.model, job.degrees, training).graph


def main() -> None:
    options = measure.parser(__doc__ or "").parse_args()
    folder = SHARED / "data" / "vtrain"
    if not folder.exists():
        sys.exit(f"no data in {folder}; set PACELINE_SHARED to the folder that holds data/vtrain")
    single = rows(folder / "ground_truth_single.csv", Recompute.NONE)
    multi = rows(folder / "ground_truth_multi.csv", Recompute.FULL)
    chosen = quantiles(single, SINGLE_QUANTILES), quantiles(multi, MULTI_QUANTILES)
    figures = judged(single, multi, *chosen, every=10 if options.quick else 1)
    if not options.quick:
        figures["uncalibrated"] = errors(single[::10], multi[::4], [], [], typical(), every=1)
        figures["other_choices"] = other_choices(single, multi, times=4)
    measure.report("accuracy/megatron", figures, options)


def rows(path: Path, recompute: Recompute) -> list[Row]:
    """The measured jobs of one file; the multi-node file has one column more in front."""
    table = np.genfromtxt(path, delimiter=",", skip_header=1)[:, -11:]
    found = []
    for values in table:
        gpus, batch, micro, hidden, heads, layers, seq, t, d, p = (int(v) for v in values[:10])
        model = Transformer(layers, hidden, heads, seq)
        training = Training(batch, micro, recompute=recompute)
        work = micro * seq * hidden**2 * layers / t / p
        text = f"{gpus} GPUs, batch {batch}/{micro}, {layers} x {hidden}, t{t} d{d} p{p}"
        job = Described(model, Degrees(d, t, p), training)
        found.append(Row(job, work, float(values[10]), text))
    return found


def quantiles(found: list[Row], at: tuple[float, ...]) -> list[int]:
    """Rows at quantiles of arithmetic per GPU and micro-batch; ties in the order of the file."""
    ordered = np.argsort([row.work for row in found], kind="stable")
    return [int(ordered[round(q * (len(found) - 1))]) for q in at]


def judged(
    single: list[Row], multi: list[Row], of_single: list[int], of_multi: list[int], every: int
) -> dict[str, Any]:
    """Calibrate on the chosen rows, and judge on all others."""
    known = [single[i] for i in of_single] + [multi[i] for i in of_multi]
    found = calibrated(known)
    return {
        **errors(single, multi, of_single, of_multi, found, every),
        "calibration_rows": [f"{row.text}: {row.measured_ms:.1f} ms" for row in known],
        "coefficients": {name: round(value, 4) for name, value in found.items()},
    }


def calibrated(known: list[Row]) -> dict[str, float]:
    measured = np.array([row.measured_ms for row in known])

    def predict(values: dict[str, float]) -> NDArray[np.float64]:
        return np.array([predicted_ms(row, values) for row in known])

    return fit_coefficients(COEFFICIENTS, predict, measured)


def errors(
    single: list[Row],
    multi: list[Row],
    of_single: list[int],
    of_multi: list[int],
    values: dict[str, float],
    every: int,
) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for name, table, known, step in (
        ("single", single, of_single, every),
        ("multi", multi, of_multi, 1),
    ):
        tested = [row for i, row in enumerate(table) if i not in known][::step]
        off = np.array([predicted_ms(row, values) / row.measured_ms - 1 for row in tested])
        worst = int(np.argmax(np.abs(off)))
        figures |= {
            f"{name}_mape": round(float(np.abs(off).mean()), 4),
            f"{name}_median": round(float(np.median(np.abs(off))), 4),
            f"{name}_worst": round(float(off[worst]), 4),
            f"{name}_worst_row": tested[worst].text,
            f"{name}_rows": len(tested),
        }
    return figures


def other_choices(single: list[Row], multi: list[Row], times: int) -> dict[str, Any]:
    """How much the figures owe to the choice of rows: five rows drawn at random, some times.

    Judged on every tenth single-node row and every fourth multi-node one, the drawn ones included.
    """
    draw = np.random.default_rng(0)
    found = []
    for _ in range(times):
        one = draw.choice(len(single), 3, replace=False).tolist()
        two = draw.choice(len(multi), 2, replace=False).tolist()
        known = [single[i] for i in one] + [multi[i] for i in two]
        found.append(errors(single[::10], multi[::4], [], [], calibrated(known), every=1))
    return {
        f"{name}_mape": measure.spread([f[f"{name}_mape"] for f in found])
        for name in ("single", "multi")
    }


def typical() -> dict[str, float]:
    return {c.name: c.typical for c in COEFFICIENTS}


def predicted_ms(row: Row, values: dict[str, float]) -> float:
    rates = Rates(
        {
            "a100-80": Efficiency(
                values["arithmetic"], values["memory"], values["ramp_ns"], values["launch_ns"]
            )
        },
        replace(NCCL, call_ns=values["call_ns"]),
    )
    where = cluster(row.job.degrees.world, values["fabric"], values["network"])
    steps = [
        (count, replay(graph, prices=prices(graph, where, rates).dur_ns).step_ns / 1e6)
        for count, graph in row.drawn
    ]
    (few, first), (more, second) = steps[0], steps[-1]
    if more == few:
        return first
    return second + (row.job.microbatches - more) * (second - first) / (more - few)


def cluster(gpus: int, fabric: float, network: float) -> Cluster:
    devices = min(gpus, 8)
    return parse(
        f"hosts: {{count: {-(-gpus // 8)}, devices: {devices}, nics: {min(devices, 4)}, "
        "device: a100-80, fabric: nvlink-3}\n"
        "link: infiniband-hdr\n"
        f"transport: {{efficiency: {network}, fabric_efficiency: {fabric}}}\n"
    )


if __name__ == "__main__":
    main()
