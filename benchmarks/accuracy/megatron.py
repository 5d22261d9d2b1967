"""Predicted against measured iteration times of Megatron-LM on 2 to 512 A100 GPUs.

The data are the published half of vTrain's measurements. No profile of that machine is used: the
A100's datasheet, typical efficiencies, and five rows to calibrate seven coefficients (each held
near what is typical). All other rows are the test. Single-node jobs keep activations, multi-node
jobs recompute them, as their sizes force them to; nodes have four 200 Gbit/s NICs.

How far this is a blind test: the rule that picks the five rows never looks at an error (quartiles
of arithmetic per GPU and micro-batch on one node, first and third quartile on several), but it was
chosen among six rules after their test errors had been seen, and the model of kernels, launches and
waits was designed with all rows in sight. `other_rules` therefore calibrates by every other rule
that was tried, and by random draws, and judges each on the same table: that spread, rather than the
headline, is what five rows give.

`--test FOLDER` predicts the rows of another folder with the same two file names instead, with what
the usual data calibrated: rows that nobody has seen.
"""

import argparse
import os
import sys
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import measure  # noqa: E402
from paceline.cluster import Network, Transport, parse  # noqa: E402
from paceline.cost import NCCL, Efficiency, Rates, prices  # noqa: E402
from paceline.cost.fit import Coefficient, fit_coefficients  # noqa: E402
from paceline.graph import Graph  # noqa: E402
from paceline.imagine.transformer import (  # noqa: E402
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
CHOSEN = "quartiles"
RULES: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    CHOSEN: ((0.25, 0.5, 0.75), (0.25, 0.75)),
    "lowest, middle, highest": ((0.0, 0.5, 1.0), (0.0, 1.0)),
    "deciles": ((0.1, 0.5, 0.9), (0.1, 0.9)),
    "sixths": ((1 / 6, 1 / 2, 5 / 6), (1 / 6, 5 / 6)),
}
"""Quantiles of arithmetic per GPU and micro-batch: of single-node rows, of multi-node ones."""
DRAWS = 2
Values = dict[str, float]


@dataclass(frozen=True)
class Row:
    """One measured job."""

    job: Described
    work: float  # arithmetic per GPU and micro-batch, in arbitrary units
    measured_ms: float
    text: str

    def drawn(self) -> list[tuple[int, Described]]:
        """The job; or, where it has many micro-batches, two shorter ones.

        Once the pipeline is full every further micro-batch takes the same time, so the step of
        many follows from two smaller numbers of them, 2 and 3 for each stage.
        """
        stages = self.job.degrees.pipeline
        few = [2 * stages, 3 * stages]
        counts = few if self.job.microbatches > few[1] else [self.job.microbatches]
        return [(count, self._with(count)) for count in counts]

    def _with(self, microbatches: int) -> Described:
        batch = microbatches * self.job.degrees.data * self.job.training.micro_batch
        return replace(self.job, training=replace(self.job.training, global_batch=batch))


@dataclass(frozen=True)
class Known:
    """A rule's calibration rows, by their numbers in both tables."""

    single: tuple[int, ...]
    multi: tuple[int, ...]


def main() -> None:
    parser = measure.parser(__doc__ or "")
    parser.add_argument("--test", type=Path, metavar="FOLDER", help="predict this folder's rows")
    options = parser.parse_args()
    folder = SHARED / "data" / "vtrain"
    if not folder.exists():
        sys.exit(f"no data in {folder}; set PACELINE_SHARED to the folder that holds data/vtrain")
    single, multi = tables(folder)
    if options.test:
        figures = on_other_rows(options, single, multi)
        measure.report("accuracy/megatron", {"test": str(options.test.name), **figures}, options)
        return
    every = 10 if options.quick else 1
    known = choices(single, multi, draws=0 if options.quick else DRAWS)
    if options.quick:
        known = {CHOSEN: known[CHOSEN]}
    fits = {name: calibrated(rows_of(k, single, multi)) for name, k in known.items()}
    known["uncalibrated"], fits["uncalibrated"] = Known((), ()), typical()
    found = judged(single, multi, known, fits, every)
    rows_used = rows_of(known[CHOSEN], single, multi)
    figures = {
        **found.pop(CHOSEN),
        "calibration_rows": [f"{row.text}: {row.measured_ms:.1f} ms" for row in rows_used],
        "coefficients": {name: round(value, 4) for name, value in fits[CHOSEN].items()},
        "uncalibrated": found.pop("uncalibrated"),
        "other_rules": found,
    }
    measure.report("accuracy/megatron", figures, options)


def tables(folder: Path) -> tuple[list[Row], list[Row]]:
    """Jobs on one node, and on several; none of a file that is not there."""
    found = []
    for name, recompute in (("single", Recompute.NONE), ("multi", Recompute.FULL)):
        path = folder / f"ground_truth_{name}.csv"
        found.append(rows(path, recompute) if path.exists() else [])
    if not any(found):
        sys.exit(f"{folder} has neither ground_truth_single.csv nor ground_truth_multi.csv")
    return found[0], found[1]


def on_other_rows(
    options: argparse.Namespace, single: list[Row], multi: list[Row]
) -> dict[str, Any]:
    """The chosen rule's five rows of the usual data, judged on all rows of another folder."""
    known = choices(single, multi, draws=0)[CHOSEN]
    fits = {CHOSEN: calibrated(rows_of(known, single, multi))}
    other = tables(options.test)
    every = 10 if options.quick else 1
    return judged(*other, {CHOSEN: Known((), ())}, fits, every)[CHOSEN]


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


def choices(single: list[Row], multi: list[Row], draws: int) -> dict[str, Known]:
    """Three single-node rows and two multi-node ones by every rule, and some drawn at random."""
    found = {
        name: Known(tuple(quantiles(single, one)), tuple(quantiles(multi, two)))
        for name, (one, two) in RULES.items()
    }
    for seed in range(draws):
        draw = np.random.default_rng(seed)
        one, two = draw.choice(len(single), 3, False), draw.choice(len(multi), 2, False)
        found[f"drawn with seed {seed}"] = Known(tuple(one.tolist()), tuple(two.tolist()))
    return found


def rows_of(known: Known, single: list[Row], multi: list[Row]) -> list[Row]:
    return [single[i] for i in known.single] + [multi[i] for i in known.multi]


def calibrated(known: list[Row]) -> Values:
    measured = np.array([row.measured_ms for row in known])
    graphs = [[(count, described(job)) for count, job in row.drawn()] for row in known]

    def predict(values: Values) -> NDArray[np.float64]:
        found = [
            whole_ms(row, [(count, step_ms(graph, values)) for count, graph in drawn])
            for row, drawn in zip(known, graphs)
        ]
        return np.array(found)

    return fit_coefficients(COEFFICIENTS, predict, measured)


def judged(
    single: list[Row],
    multi: list[Row],
    known: dict[str, Known],
    fits: dict[str, Values],
    every: int,
) -> dict[str, dict[str, Any]]:
    """Each rule's errors on all rows that it was not calibrated on."""
    found: dict[str, dict[str, Any]] = {name: {} for name in fits}
    for kind, table, step in (("single", single, every), ("multi", multi, 1)):
        tested = range(0, len(table), step)
        predicted = {i: predicted_ms(table[i], tuple(fits.values())) for i in tested}
        for column, name in enumerate(fits):
            left = [i for i in tested if i not in getattr(known[name], kind)]
            times = [predicted[i][column] for i in left]
            if left:
                found[name] |= errors(kind, [table[i] for i in left], times)
    return found


def errors(kind: str, tested: list[Row], predicted: list[float]) -> dict[str, Any]:
    off = np.array([ms / row.measured_ms - 1 for ms, row in zip(predicted, tested)])
    worst = int(np.argmax(np.abs(off)))
    return {
        f"{kind}_mape": round(float(np.abs(off).mean()), 4),
        f"{kind}_median": round(float(np.median(np.abs(off))), 4),
        f"{kind}_p90": round(float(np.quantile(np.abs(off), 0.9)), 4),
        f"{kind}_worst": round(float(off[worst]), 4),
        f"{kind}_worst_row": tested[worst].text,
        f"{kind}_rows": len(tested),
    }


def typical() -> Values:
    return {c.name: c.typical for c in COEFFICIENTS}


def predicted_ms(row: Row, fits: tuple[Values, ...]) -> list[float]:
    """The row's step time with each set of coefficients; each graph is drawn once."""
    keys = tuple(tuple(values.items()) for values in fits)
    steps = [(count, steps_ms(job, keys)) for count, job in row.drawn()]
    return [whole_ms(row, [(count, times[i]) for count, times in steps]) for i in range(len(fits))]


def whole_ms(row: Row, steps: list[tuple[int, float]]) -> float:
    """From the steps of two shorter jobs to that of the whole one."""
    (few, first), (more, second) = steps[0], steps[-1]
    if more == few:
        return first
    return second + (row.job.microbatches - more) * (second - first) / (more - few)


@cache
def steps_ms(job: Described, keys: tuple[tuple[tuple[str, float], ...], ...]) -> list[float]:
    """Rows that differ in their number of micro-batches alone share this."""
    graph = described(job)
    return [step_ms(graph, dict(key)) for key in keys]


def described(job: Described) -> Graph:
    return describe(job.model, job.degrees, job.training).graph


def step_ms(graph: Graph, values: Values) -> float:
    rates = Rates(
        {
            "a100-80": Efficiency(
                values["arithmetic"], values["memory"], values["ramp_ns"], values["launch_ns"]
            )
        },
        replace(NCCL, call_ns=values["call_ns"]),
    )
    transport = Transport(efficiency=values["network"], fabric_efficiency=values["fabric"])
    network = nodes(graph.world_size).with_transport(transport)
    return replay(graph, prices=prices(graph, network, rates).dur_ns).step_ns / 1e6


@cache
def nodes(gpus: int) -> Network:
    devices = min(gpus, 8)
    return Network(
        parse(
            f"hosts: {{count: {-(-gpus // 8)}, devices: {devices}, nics: {min(devices, 4)}, "
            "device: a100-80, fabric: nvlink-3}\n"
            "link: infiniband-hdr\n"
        )
    )


if __name__ == "__main__":
    main()
