"""Population coding in place of 25 time steps: what it brings a spiking network, and what it was
predicted to bring.

Predicted from one recording of the loop over time. Forward and backward take a 25th, layer by
layer; of the host's time between operators what follows those of the layers does, and the rest
(loss, batch, the engine's start) stays. The last layer, which has 50 neurons for each class in
place of one, and the optimizer take longer by what just these parts take longer, timed by
themselves: a difference, for a ratio would hold what a call costs whatever is in it. Nothing of the
other network is run for it.
Measured are steps of both networks, which take turns in one process,
in processor time of their one thread. `error` is of the speed-up. Both are trained to the same
accuracy, and how long that took is beside it.

The speed-up and each training are rows, kept in `results/population-rows.json` as they come, so
that a run that was stopped, or whose `--budget` was spent, goes on; `--fresh` makes them anew. It
takes about 5 minutes, most of them the loop's training.

    python benchmarks/accuracy/population.py --json
"""

import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np

from benchmarks import kept, measure
from paceline.bench import named
from paceline.bench.catalogue import module_of
from paceline.bench.workload import Setup
from paceline.graph import Graph, OpKind, Phase
from paceline.graph.condense import Grain
from paceline.predict import predict
from paceline.predict.predicting import typical
from paceline.record.launch import RecordRequest, launch
from paceline.trace.runs import open_run

LOOP, POPULATION = "spiking", "spiking_population"
BATCH = 64
STEPS, PLAIN = 10, 20  # recorded, and without instruments before and after them
ROUNDS = 15
BLOCK = 10  # steps of one network before the other's turn
LAYERS = "1"  # where the network stands in its `nn.Sequential`
BOTH = (Phase.FORWARD, Phase.BACKWARD)
PASSES = "phase=forward|backward"


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = measure.parser(__doc__ or "")
    parser.add_argument("--fresh", action="store_true", help="measure anew what is kept")
    parser.add_argument("--budget", type=float, default=30.0, metavar="MINUTES",
                        help="begin no row after so long (30)")  # fmt: skip
    options = parser.parse_args(arguments)
    rounds = 4 if options.quick else ROUNDS
    makers = {f"speedup, {rounds} rounds": partial(speedup, rounds)}
    if not options.quick:
        makers |= {name: partial(trained, name) for name in (LOOP, POPULATION)}
    rows = kept.rows("population", makers, options.budget, fresh=options.fresh)
    measured = rows.get(f"speedup, {rounds} rounds", {})
    figures = {
        **{name: value for name, value in measured.items() if name != "load"},
        "trained": {name: row for name, row in rows.items() if name in (LOOP, POPULATION)},
        "missing": [name for name in makers if name not in rows],
    }
    return measure.report("accuracy/population", figures, options, "torch", "snntorch")


def speedup(rounds: int) -> kept.Row:
    """Predicted and measured in the same minutes."""
    import torch

    torch.set_num_threads(1)
    more = longer(rounds)
    told = predicted(more)
    steps = {name: 1e3 * step_s for name, step_s in measured(rounds).items()}
    found = steps[LOOP] / steps[POPULATION]
    return {
        "error": abs(told / found - 1),
        "predicted_speedup": told,
        "measured_speedup": found,
        "step_ms": steps,
        "longer_ms": {part: 1e3 * more_s for part, more_s in more.items()},
    }


def predicted(longer_s: dict[str, float]) -> float:
    """The speed-up that the recording of the loop says."""
    with tempfile.TemporaryDirectory() as scratch:
        steps = str(STEPS + 2 * PLAIN + 14)
        line = (sys.executable, "-m", module_of(LOOP), "--batch", str(BATCH), "--steps", steps)
        run = launch(RecordRequest(line, Path(scratch) / "run", STEPS, PLAIN), os.environ)
        graph = open_run(run.folder)
    changes = factors(typical(graph, Grain.OP), longer_s)
    texts = [f"scale(select={chosen!r}, factor={by})" for chosen, by in changes.items()]
    return predict(graph, []).step_ns / predict(graph, texts).step_ns


def factors(step: Graph, longer_s: dict[str, float]) -> dict[str, float]:
    """By what each part of the loop's step is multiplied."""
    from paceline.bench.workloads.torch_spiking import STEPS as TIMES

    found = {}
    for layer in (LAYERS, *(f"{LAYERS}.{name}" for name in ("first", "inner", "second", "outer"))):
        chosen = f"{PASSES},kind=compute,layer={layer}"
        more_s = longer_s.get(layer.removeprefix(f"{LAYERS}."), 0.0)
        found[chosen] = 1 / TIMES + 1e9 * more_s / max(1, work_ns(step, layer, *BOTH))
    update_ns = work_ns(step, None, Phase.UPDATE)
    found["phase=update,kind=compute"] = 1 + 1e9 * longer_s["update"] / max(1, update_ns)
    for phase in BOTH:
        repeated = repeated_share(step, phase)
        found[f"phase={phase.name.lower()},kind=host"] = repeated / TIMES + 1 - repeated
    return found


def work_ns(step: Graph, layer: str | None, *phases: Phase) -> int:
    """Of the operators of a layer (None: of any) in these phases."""
    ops, names = step.ops, np.array([*step.names, ""])
    mine = (ops.kind == OpKind.COMPUTE) & np.isin(ops.phase, phases)
    if layer is not None:
        mine &= names[ops.layer] == layer
    return int(ops.dur_ns[mine].sum())


def repeated_share(step: Graph, phase: Phase) -> float:
    """Of the host's time in a phase, the part that follows operators of the network's layers."""
    ops = step.ops
    inside = np.array([name.split(".")[0] == LAYERS for name in step.names] + [False])
    repeated = whole = 0
    for lane in np.unique(ops.lane):
        mine = np.flatnonzero(ops.lane == lane)
        computes = ops.kind[mine] == OpKind.COMPUTE
        last = np.maximum.accumulate(np.where(computes, np.arange(len(mine)), 0))
        follows = inside[ops.layer[mine[last]]]
        host = (ops.kind[mine] == OpKind.HOST) & (ops.phase[mine] == phase)
        whole += int(ops.dur_ns[mine][host].sum())
        repeated += int(ops.dur_ns[mine][host & follows].sum())
    return repeated / max(whole, 1)


def longer(rounds: int) -> dict[str, float]:
    """Seconds by which the last layer's parts and the optimizer take longer with the population."""
    from paceline.bench.workloads.torch_spiking import network as loop
    from paceline.bench.workloads.torch_spiking_population import network as population

    both = {LOOP: loop(), POPULATION: population()}
    found = {}
    for part, act in (("second", of_linear), ("outer", of_neurons), ("update", of_update)):
        times = _in_turn({name: act(net[int(LAYERS)]) for name, net in both.items()}, rounds)
        found[part] = times[POPULATION] - times[LOOP]
    return found


def of_linear(net: Any) -> Callable[[], None]:
    """Forward and backward of the last product, as a training does them."""
    import torch

    spikes = (torch.rand(BATCH, net.second.in_features) < 0.2).float().requires_grad_()
    gradient = torch.rand(BATCH, net.second.out_features)
    return lambda: net.second(spikes).backward(gradient)


def of_neurons(net: Any) -> Callable[[], None]:
    import torch

    current = torch.rand(BATCH, net.second.out_features).requires_grad_()
    gradient = torch.rand(BATCH, net.second.out_features)

    def act() -> None:
        spikes, _ = net.outer(current, net.outer.reset_mem())
        spikes.backward(gradient)

    return act


def of_update(net: Any) -> Callable[[], None]:
    import torch

    for weights in net.parameters():
        weights.grad = torch.rand_like(weights)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.0)
    return lambda: optimizer.step()


def measured(rounds: int) -> dict[str, float]:
    """Median seconds of a step of each network."""
    trainings = {name: named(name).build(Setup(BATCH)) for name in (LOOP, POPULATION)}

    def step(name: str) -> None:
        trainings[name].step(next(trainings[name].batches))

    return _in_turn({name: partial(step, name) for name in trainings}, rounds)


def trained(name: str) -> dict[str, Any]:
    """To the accuracy that both workloads name."""
    import torch

    from paceline.bench.torch_training import to_quality

    torch.set_num_threads(1)
    torch.manual_seed(1)
    setup, workload = Setup(BATCH), named(name)
    return asdict(to_quality(workload, setup, workload.build(setup)))


def _in_turn(acts: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """Processor seconds of one call of each, blocks of which take turns: the median block. All of
    it runs on one thread, so alone on the machine it is the time that passes."""

    def block(act: Callable[[], None]) -> None:
        for _ in range(BLOCK):
            act()

    times = measure.interleave({name: partial(block, act) for name, act in acts.items()}, rounds)
    return {name: statistics.median(found["cpu"]) / BLOCK for name, found in times.items()}


if __name__ == "__main__":
    main()
