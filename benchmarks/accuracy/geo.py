"""Machines that are far apart, and machines of unequal speed: planned against plain, in the lab.

Far apart: four workers in two sites, of 1 Gbit/s and 100 Mbit/s inside, 8 Mbit/s between, which the
cluster lists in turn. A pipeline in that order with equal stages is the plain one. `plan_distant`
finds the order, the cuts and what passes the slow link, without compression and with it; all train
the same batches. `speedup` is the ratio of the plain step and the fastest one whose loss is within
1 % of the plain one's, `loss` how far that is off: relative, means over the last quarter of the
batches. The strongest compression is reported beside it, whatever its loss. `predicted` is the
largest error of the steps as replayed from the layers' profile, `predicted_chosen` that of the plan
which `speedup` is of.

Unequal: three workers with 0.9, 0.6 and 0.3 of a core train the same global batches, first in equal
parts, then in those that `uneven_batches` proposes from a recording of the first. The ideal ratio
of their steps is that of the slowest worker's time for an equal part over the time in which all
cores together do the whole batch: 2. `mixed_speedup` is the share of it that was reached;
`mixed_predicted` the ratio that was predicted from the recording, `mixed_off` how far that is off.
`mixed_loss` is the largest relative difference of the losses of any global batch, and
`mixed_loss_unweighted` the same where gradients of unequal batches count alike, so that the check
is seen to fail where weighting does. `mixed_learnt` is by how much the loss fell.

Rows are kept as they come; the next run goes on behind them. All of them take ten minutes.

    python benchmarks/accuracy/geo.py --json
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks import kept, measure
from benchmarks.accuracy import cells, pipeline_lab
from benchmarks.accuracy.recordings import measured_machine
from paceline.cluster import Cluster, load
from paceline.cluster.machine import Machine
from paceline.cluster.tcp import over_tcp
from paceline.graph import Graph
from paceline.lab import Lab
from paceline.place.distant import (
    DistantPlan,
    Rates,
    Search,
    plan_distant,
    priced_in_lab,
    reordered,
)
from paceline.place.pipeline import Borders, LayerCost, Packing, PipelineProfile
from paceline.predict import predict
from paceline.strategies.uneven_batches import UnevenBatches
from paceline.trace.runs import open_run
from paceline.verify import Proof, prove

JOB = Path(__file__).parent / "jobs" / "mixed.py"
STAGE = JOB.with_name("distant.py")
ROWS, BATCH = 16, 128
COMPRESS = (2.0, 4.0, 8.0)
LOSS = 0.01
SITES = Path(__file__).parents[2] / "examples" / "two_sites.yaml"
QUOTAS = (0.9, 0.6, 0.3)
Quotas = tuple[float, ...]
MBIT = 1000
RECORDED_STEPS = 40


def main(arguments: list[str] | None = None) -> None:
    parser = measure.parser(__doc__.splitlines()[0])
    parser.add_argument(
        "--scale", type=float, default=1.0, help="times the quotas, where others use the cores too"
    )
    parser.add_argument("--only", choices=("distant", "mixed"), help="one of both")
    parser.add_argument("--budget", type=float, default=60.0, metavar="MINUTES")
    options = parser.parse_args(arguments)
    if refused := pipeline_lab.why_not():
        raise SystemExit(f"no lab stands up here: {refused}")
    quotas = tuple(options.scale * quota for quota in QUOTAS)
    figures: dict[str, Any] = {}
    if options.only != "mixed":
        figures |= distant(24 if options.quick else 200, options.budget)
    if options.only != "distant":
        steps = 24 if options.quick else 60
        name = f"unequal workers, quotas {quotas}, {steps} steps"
        rows = kept.rows("geo", {name: partial(mixed, steps, quotas)}, options.budget)
        for row in rows.values():
            load = row.pop("load")
            figures |= {**row, "mixed_load": load}
    measure.report("accuracy/geo", figures, options, "torch")


def distant(batches: int, minutes: float) -> dict[str, Any]:
    """The plain pipeline, the planned one without compression, and with more and more of it. No
    figure stands before all rows are there."""
    cluster = load(SITES)
    before = {
        "layers": lambda: {"layers": measured_layers(cluster.workers)},
        "machine": lambda: {"constants": asdict(measured_machine())},
    }
    known = kept.rows("geo", before, minutes)
    if len(known) < len(before):
        return {"missing": [name for name in before if name not in known]}
    layers, machine = known["layers"], Machine(**known["machine"]["constants"])
    profile = PipelineProfile({ROWS: tuple(LayerCost(**layer) for layer in layers["layers"])})
    rates, speeds = Rates.of(cluster), (1.0,) * cluster.workers
    ways = {
        "plain": plain(profile, cluster.workers),
        "order": plan_distant(profile, rates, Search(BATCH, speeds))[0],
        **{
            f"compressed {compress:g}": plan_distant(
                profile, rates, Search(BATCH, speeds, compress)
            )[0]
            for compress in COMPRESS
        },
    }
    far = {
        f"far apart, {name}, {batches} batches": partial(
            row, plan, profile, cluster, machine, batches
        )
        for name, plan in ways.items()
    }
    found = kept.rows("geo", far, minutes)
    if len(found) < len(far):
        return {"missing": [name for name in far if name not in found]}
    rows = dict(zip(ways, found.values()))
    base = rows["plain"]
    for one in rows.values():
        one["speedup"] = base["step_s"]["median"] / one["step_s"]["median"]
        one["loss_off"] = one["loss"] / base["loss"] - 1
    equal = [one for one in rows.values() if abs(one["loss_off"]) <= LOSS]
    best, last = max(equal, key=lambda one: one["speedup"]), [*rows.values()][-1]
    return {
        "speedup": best["speedup"],
        "predicted": max(abs(one["error"]) for one in rows.values()),
        "predicted_chosen": abs(best["error"]),
        "loss": best["loss_off"],
        "loss_off": abs(best["loss_off"]),
        "most_compressed_speedup": last["speedup"],
        "most_compressed_loss": last["loss_off"],
        "distant_rows": rows,
    }


def row(
    plan: DistantPlan, profile: PipelineProfile, cluster: Cluster, machine: Machine, batches: int
) -> dict[str, Any]:
    """Measured beside predicted."""
    told = {name: getattr(plan, name) for name in ("cuts", "microbatch", "microbatches", "shares")}
    command = [*cells.FIRST, sys.executable, str(STAGE), json.dumps(told), str(batches)]
    placed, settings = reordered(cluster, plan.order), {"OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder, Lab(placed) as lab:
        done = lab.run(command, timeout_s=600, environment=settings, logs=Path(folder))
        said = [_answer(done.text(worker)) for worker in range(cluster.workers)]
    step = measure.spread(said[0]["steps_s"])
    borders = borders_of(plan)
    stages, linked = plan.stages(profile), over_tcp(cluster)
    expected = priced_in_lab(plan, stages, linked, machine, borders).step_ns / 1e9
    last = said[-1]["losses"][-max(1, batches // 4) :]
    return {
        **told,
        "order": plan.order,
        "step_s": step,
        "predicted_s": expected,
        "packing": [asdict(one) for one in borders.packing],
        "formula_s": plan.step_ns / 1e9,
        "error": expected / step["median"] - 1,
        "loss": statistics.mean(last),
    }


def plain(profile: PipelineProfile, workers: int) -> DistantPlan:
    """Equal stages on the workers as they are listed."""
    each = profile.layers // workers
    cuts = (*(each * stage for stage in range(workers)), profile.layers)
    shares = (1.0,) * (workers - 1)
    return DistantPlan(tuple(range(workers)), cuts, ROWS, BATCH // ROWS, shares, 0.0)


def measured_layers(workers: int) -> list[dict[str, Any]]:
    """Means over as many processes at once as the lab puts on these cores, for their layers push
    one another's out of the caches."""
    with ThreadPoolExecutor(workers) as pool:
        found = list(pool.map(measured_alone, [f"distant.profile({ROWS})"] * workers))
    return [{**same[0], **_mean_times(same)} for same in zip(*found)]


def _mean_times(layers: Sequence[dict[str, Any]]) -> dict[str, int]:
    names = ("forward_ns", "backward_ns", "update_ns")
    return {name: round(statistics.mean(layer[name] for layer in layers)) for name in names}


def borders_of(plan: DistantPlan) -> Borders:
    """What its compressed borders take."""
    return Borders(
        tuple(
            Packing(**measured_alone(f"distant.packing({plan.microbatch}, {share})"))
            if share < 1
            else Packing()
            for share in plan.shares
        )
    )


def measured_alone(call: str) -> Any:
    """In a process of its own, which goes before others as the lab's workers do: a profile that
    waited for its core would hide the slow border behind the stages, and leave it uncompressed."""
    code = f"import json, distant; print(json.dumps({call}))"
    settings = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*cells.FIRST, sys.executable, "-c", code],
        cwd=STAGE.parent,
        env=settings,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def mixed(steps: int, quotas: Quotas) -> dict[str, Any]:
    """Equal parts, uneven ones and equal ones again, so that a drift shows."""
    graph = recorded(quotas)
    proposed = next(iter(UnevenBatches.choices(graph)), None)
    if proposed is None:
        raise SystemExit("the recording shows workers alike: others took the cores that they have")
    plan = [str(proposed)]
    turns = [trained(steps, words, quotas) for words in ([], plan, [], ["--unweighted", *plan])]
    equal, uneven = [*turns[0]["steps_s"], *turns[2]["steps_s"]], turns[1]["steps_s"]
    ratio = statistics.median(equal) / statistics.median(uneven)
    predicted = predict(graph).step_ns / predict(graph, [proposed]).step_ns
    losses = [turn["losses"] for turn in turns]
    return {
        "mixed_speedup": ratio / ideal(quotas),
        "mixed_ratio": ratio,
        "mixed_ideal": ideal(quotas),
        "mixed_predicted": predicted,
        "mixed_off": abs(predicted / ratio - 1),
        "mixed_loss": apart(losses[1], losses[0]),
        "mixed_loss_unweighted": apart(losses[3], losses[0]),
        "mixed_learnt": 1 - losses[0][-1] / losses[0][0],
        "shares": getattr(proposed, "shares", ()),
        "quotas": quotas,
        "equal_s": measure.spread(equal),
        "uneven_s": measure.spread(uneven),
        "drift": statistics.median(turns[2]["steps_s"]) / statistics.median(turns[0]["steps_s"]),
    }


def apart(losses: Sequence[float], others: Sequence[float]) -> float:
    """The largest relative difference of two trainings' losses, batch by batch."""
    return max(abs(one / other - 1) for one, other in zip(losses, others, strict=True))


def ideal(quotas: Quotas) -> float:
    return (1 / len(quotas) / min(quotas)) / (1 / sum(quotas))


def cluster(quotas: Quotas) -> Cluster:
    """Hosts with quotas around a switch."""
    plain = cells.cluster(len(quotas), MBIT)
    hosts = tuple(replace(host, cpus=cpus) for host, cpus in zip(plain.hosts, quotas))
    return replace(plain, hosts=hosts)


def recorded(quotas: Quotas) -> Graph:
    """The job in equal parts, as the recorder sees it in that lab."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = (*cells.FIRST, sys.executable, str(JOB), str(RECORDED_STEPS))
        prove(Proof(command, cluster(quotas)), {**os.environ, "OMP_NUM_THREADS": "1"}, run)
        return open_run(run)


def trained(steps: int, plan: list[str], quotas: Quotas) -> dict[str, Any]:
    """Steps of the job under a plan, and the losses of their batches."""
    command = [*cells.FIRST, sys.executable, str(JOB), str(steps), *plan]
    with tempfile.TemporaryDirectory() as folder, Lab(cluster(quotas)) as lab:
        done = lab.run(
            command, timeout_s=300, environment={"OMP_NUM_THREADS": "1"}, logs=Path(folder)
        )
        said = [_answer(done.text(worker)) for worker in range(len(quotas))]
    return said[0]


def _answer(log: str) -> Any:
    return json.loads([line for line in log.splitlines() if line.startswith("{")][-1])


if __name__ == "__main__":
    main()
