"""What every strategy keeps, those of other packages too: its text, its graph, its live half."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from pathlib import Path
from sys import modules
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from paceline.graph import (
    Axis,
    Collective,
    DepKind,
    DType,
    Facts,
    Graph,
    GraphBuilder,
    LaneKind,
    OpKind,
    Parameter,
    Phase,
    Role,
    check,
)
from paceline.graph.synthetic import TrainingJob, training
from paceline.graph.synthetic.training_lanes import Machine
from paceline.strategies import Effect, Strategy, kind_of, known, parse
from paceline.strategies.remodelling import Remodelling

if TYPE_CHECKING:
    from conftest import Drawn

WORKER = Path(__file__).parent / "contract_worker.py"
MODEL_BYTES = 4 * (20 * 64 + 64 + 64 * 64 + 64 + 64 * 4 + 4)  # of the worker's model

EXAMPLES = {
    "device": "device(name='h200', recorded='a100-80')",
    "scale": "scale(select='phase=backward', factor=0.5)",
}
"""Settings of strategies that have none worth trying on every job."""

APPLIED = {
    "block_circulant": "block_circulant(block=4, layers='0|2')",
    "factored": "factored(rank=16, layers='*')",
    "low_rank": "low_rank(depth=2, rank=0, energy=0.999, layers='*')",
    "buckets": "buckets(size_bytes=8000, first_size_bytes=0)",
    "bf16": "bf16",
    "fp16": "fp16",
    "int8": "int8",
    "onebit": "onebit",
    "substitute": "substitute(rules='relu_in_place')",
    "random_block": "random_block(ratio=0.3, seed=0)",
    "threshold": "threshold(ratio=0.1, every=5)",
    "topk": "topk(ratio=0.1)",
}
"""Settings under which each strategy trains the worker's small model."""

STRAYS = {"bf16": 1e-3, "fp16": 1e-4, "int8": 1e-3, "topk": 0.05, "threshold": 0.05,
          "random_block": 0.1, "onebit": 0.2, "block_circulant": 0.3, "factored": 0.1,
          "low_rank": 0.05}  # fmt: skip
"""By how much of plain's last loss a lossy strategy's may be higher after twenty steps."""

GRAPHS = {machine.name: training(TrainingJob(machine=machine)) for machine in Machine}


def graph_for(name: str, machine: str) -> Graph:
    """A job that the strategy fits."""
    return worker_model() if name in ("substitute", "tensor_parallel") else GRAPHS[machine]


def settings_of(name: str, graph: Graph) -> list[Strategy]:
    found = list(kind_of(name).choices(graph))
    return found or [parse(EXAMPLES[name])]


@pytest.mark.parametrize("name", known())
def test_a_strategy_is_a_frozen_dataclass_that_says_when_it_is_wrong(name: str) -> None:
    kind = kind_of(name)
    assert is_dataclass(kind)
    assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert "Wrong" in (modules[kind.__module__].__doc__ or "")
    assert isinstance(kind.effect, Effect)
    assert kind.conflicts <= set(known())
    assert kind.applies or kind.how, "it says how to get what it cannot apply"


@pytest.mark.parametrize("name", known())
def test_a_strategy_shown_as_text_is_read_back(name: str) -> None:
    for one in settings_of(name, graph_for(name, "CPU")):
        assert parse(str(one)) == one
        for field in fields(one):  # type: ignore[arg-type]
            with pytest.raises(FrozenInstanceError):
                setattr(one, field.name, None)


@pytest.mark.parametrize("name", known())
@pytest.mark.parametrize("machine", GRAPHS)
def test_choices_fit_and_leave_a_lawful_graph_and_their_own_untouched(
    name: str, machine: str
) -> None:
    graph = graph_for(name, machine)
    if name == "device" and machine == "CPU":
        pytest.skip("its example carries a GPU's kernels over, and this job ran on threads")
    before = columns(graph)
    for one in settings_of(name, graph):
        assert one.refusal(graph) is None
        check(one.transform(graph))
    after = columns(graph)
    assert all(np.array_equal(before[key], after[key]) for key in before)


def columns(graph: Graph) -> dict[str, Any]:
    tables = {"ops": graph.ops, "deps": graph.deps}
    return {
        f"{table}.{field.name}": getattr(owner, field.name).copy()
        for table, owner in tables.items()
        for field in fields(owner)
    }


def test_every_strategy_that_applies_is_tried_on_real_workers() -> None:
    assert set(APPLIED) == {name for name in known() if kind_of(name).applies}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of two workers saw: plain training, and training under each strategy."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("contract")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*command, str(WORKER), str(folder), *APPLIED.values()], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(2)]


Runs = list[dict[str, Any]]
EXACT = [name for name in APPLIED if kind_of(name).effect is Effect.EXACT]
LOSSY = [name for name in APPLIED if kind_of(name).effect is Effect.LOSSY]


@pytest.mark.live
@pytest.mark.parametrize("name", EXACT)
def test_an_exact_strategy_trains_the_very_same_weights(name: str, runs: Runs) -> None:
    for run in runs:
        assert run[APPLIED[name]]["losses"] == run[""]["losses"]
        assert run[APPLIED[name]]["weights"] == run[""]["weights"]


@pytest.mark.live
@pytest.mark.parametrize("name", LOSSY)
def test_a_lossy_strategy_learns_about_as_well_and_alike_on_all_ranks(
    name: str, runs: Runs
) -> None:
    under, plain = runs[0][APPLIED[name]]["losses"], runs[0][""]["losses"]
    assert under[-1] < under[0]
    assert under[-1] <= plain[-1] * (1 + STRAYS[name])
    assert runs[0][APPLIED[name]]["weights"] == runs[1][APPLIED[name]]["weights"]
    assert runs[0][APPLIED[name]]["weights"] != runs[0][""]["weights"]


@pytest.mark.live
@pytest.mark.parametrize("name", APPLIED)
def test_leaving_a_strategy_restores_the_job_and_its_checkpoints(name: str, runs: Runs) -> None:
    for run in runs:
        assert run[APPLIED[name]]["after"] == run[APPLIED[name]]["fresh"]
        assert run[APPLIED[name]]["keys"] == run[""]["keys"]


@pytest.mark.live
def test_a_plan_that_breaks_on_its_way_leaves_the_job_as_it_was(runs: Runs) -> None:
    for run in runs:
        assert "workers(count=99) cannot be switched on" in run["broken"]["said"]
        assert run["broken"]["after"]


@pytest.fixture
def drawn(drawn: "Drawn") -> "Drawn":
    """The worker's model, in one bucket."""
    return replace(drawn, first_bytes=1000, second_bytes=MODEL_BYTES - 1000)


REMODELLING = [name for name in APPLIED if issubclass(kind_of(name), Remodelling)]


@pytest.mark.live
@pytest.mark.parametrize("name", sorted(set(LOSSY) - set(REMODELLING)))
def test_the_bytes_that_travel_are_the_predicted_ones(
    name: str, runs: Runs, recording: Callable[..., Graph]
) -> None:
    made = parse(APPLIED[name]).transform(recording(2))
    talks = (made.ops.kind == OpKind.COLLECTIVE) & (made.ops.rank == 0)
    sent: Mapping[str, float] = runs[0][APPLIED[name]]["sent"]
    assert sent["steps"] == 20
    assert sent["payload_bytes"] == made.ops.size_bytes[talks].sum()


@pytest.mark.live
@pytest.mark.parametrize("name", REMODELLING)
def test_the_gradients_of_a_smaller_model_are_the_predicted_ones(name: str, runs: Runs) -> None:
    made = parse(APPLIED[name]).transform(worker_model())
    talks = (made.ops.kind == OpKind.COLLECTIVE) & (made.ops.rank == 0)
    sent: Mapping[str, float] = runs[0][APPLIED[name]]["sent"]
    assert sent["steps"] == 20
    assert sent["calls"] == talks.sum()
    assert sent["payload_bytes"] == made.ops.size_bytes[talks].sum()


def worker_model() -> Graph:
    """The worker's three linear layers, drawn as a recording shows them."""
    b = GraphBuilder(facts=Facts(world_size=2, parameters=tuple(_parameters())))
    group, instance = b.group("0", (0, 1), Axis.DATA), b.instance()
    for rank in (0, 1):
        main, gloo = b.lane(rank, "main"), b.lane(rank, "gloo", kind=LaneKind.COMM_THREAD)
        for layer in range(5):
            name = "aten::relu" if layer % 2 else "aten::linear"
            b.op(name, main, 300, phase=Phase.FORWARD, layer=str(layer))
        ready = []
        for parameter in reversed(list(_parameters())):
            b.op("mm", main, 200, phase=Phase.BACKWARD, layer=parameter.layer)
            ready.append(b.op("mul", main, 20, phase=Phase.BACKWARD, tensor=parameter.name))
        asked = b.op("c10d", main, kind=OpKind.HOST, phase=Phase.COMMUNICATION)
        sent = b.op(
            "gloo:all_reduce", gloo, 900, after=[asked], dep=DepKind.LAUNCH, group=group,
            kind=OpKind.COLLECTIVE, phase=Phase.COMMUNICATION, instance=instance,
            collective=Collective.ALL_REDUCE, dtype=DType.FLOAT32, size_bytes=MODEL_BYTES,
        )  # fmt: skip
        for op in ready:
            b.link(op, sent, DepKind.GRADIENT)
        b.op("wait", main, after=[sent], dep=DepKind.WAIT, kind=OpKind.WAIT)
        b.op("copy", main, 40, phase=Phase.BACKWARD)
        b.op("sgd", main, 60, phase=Phase.UPDATE)
    return check(b.build())


_LAYERS = {"0": (64, 20), "2": (64, 64), "4": (4, 64)}


def _parameters() -> Iterator[Parameter]:
    for layer, (rows, columns) in _LAYERS.items():
        weight = (rows, columns)
        yield Parameter(f"{layer}.weight", 4 * rows * columns, weight, layer, Role.LINEAR_WEIGHT)
        yield Parameter(f"{layer}.bias", 4 * rows, (rows,), layer)
