"""What every strategy keeps, those of other packages too: its text, its graph, its live half."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from sys import modules
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from paceline.graph import (
    Collective,
    Graph,
    OpKind,
    check,
)
from paceline.graph.facts import Loading, Stored
from paceline.graph.synthetic import Parallel, TrainingJob, training
from paceline.graph.synthetic.training_lanes import Machine
from paceline.strategies import Effect, Strategy, kind_of, known, parse
from paceline.strategies.coded import CODECS, Coded
from paceline.strategies.remodelling import Remodelling
from paceline.strategies.seldom import Seldom

if TYPE_CHECKING:
    from conftest import Drawn

WORKER = Path(__file__).parent / "contract_worker.py"
STEPS = 52  # under each strategy: fifty and more, and whole periods of weights that travel
EXAMPLES = {
    "bounded_loss": "bounded_loss",
    "device": "device(name='h200', recorded='a100-80')",
    "offload_activations": "offload_activations",
    "scale": "scale(select='phase=backward', factor=0.5)",
    "uneven_batches": "uneven_batches(shares=(3.0, 1.0))",
}
"""Settings of strategies that have none worth trying on every job."""

APPLIED = {
    "accumulate": "accumulate(steps=2)",
    "adaptive_topk": "adaptive_topk(ratio=0.1, ratios=(0.1, 0.2))",
    "autocast": "autocast",
    "batch": "batch(factor=2.0)",
    "batchnorm_relu": "batchnorm_relu",
    "block_circulant": "block_circulant(block=4, layers='0|2')",
    "buckets": "buckets(size_bytes=8000, first_size_bytes=0, order='last use')",
    "channels_last": "channels_last",
    "compiled": "compiled",
    "factored": "factored(rank=16, layers='*')",
    "fused_optimizer": "fused_optimizer",
    "fused_step": "fused_step",
    "cache": "cache()",
    "data_workers": "data_workers(count=1, pinned=False)",
    "format": "format(name='raw')",
    "prefetch": "prefetch(batches=1)",
    "low_rank": "low_rank(depth=2, rank=0, energy=0.999, layers='*')",
    "bf16": "bf16",
    "bounded_loss": "bounded_loss(gradients=0.05)",
    "dgc": "dgc(ratio=0.1, warmup=0)",
    "checkpoint": "checkpoint(layers='*', every=2)",
    "compress_activations": "compress_activations(bits=8)",
    "count_sketch": "count_sketch(ratio=0.05, room=6.0)",
    "fp16": "fp16",
    "int8": "int8",
    "onebit": "onebit",
    "hierarchical": "hierarchical(on_host=2)",
    "overlap_update": "overlap_update()",
    "parameter_server": "parameter_server()",
    "partition": "partition(parts=3)",
    "powersgd": "powersgd(rank=2)",
    "relu_masks": "relu_masks",
    "restructured_norms": "restructured_norms()",
    "priority": "priority()",
    "substitute": "substitute(rules='relu_in_place')",
    "random_block": "random_block(ratio=0.3, seed=0)",
    "threshold": "threshold(ratio=0.1, every=5)",
    "topk": "topk(ratio=0.1)",
    "local_sgd": "local_sgd(period=4, states=0)",
    "overlap_local_sgd": "overlap_local_sgd(period=2, pullback=0.6, momentum=0.7)",
    "diloco": "diloco(period=4, fragments=2, delay=1, mixing=0.2)",
    "zero1": "zero1()",
}
"""Settings under which each strategy trains the worker's small model."""

VARIANTS = (
    "dgc(ratio=0.1, warmup=0, layerwise=True, clip=1.0)",
    "topk(ratio=0.1, layerwise=True, momentum='before')",
    "threshold(ratio=0.1, layerwise=True, every=5)",
    "random_block(ratio=0.3, layerwise=True, momentum='before')",
    "topk(ratio=0.3, feedback=False)",
)
"""Other settings, whose bytes and whose undoing are held to the same contract."""

STRAYS = {"bf16": 1e-3, "fp16": 1e-4, "int8": 1e-3, "topk": 0.05, "threshold": 0.05,
          "random_block": 0.1, "onebit": 0.2, "adaptive_topk": 0.05, "dgc": 0.1, "powersgd": 0.1,
          "local_sgd": 0.05, "overlap_local_sgd": 0.2, "diloco": 0.2,
          "block_circulant": 0.3, "factored": 0.1, "low_rank": 0.05,
          "autocast": 0.05, "count_sketch": 0.1, "compress_activations": 0.05,
          "accumulate": 0.5}  # fmt: skip
"""By how much of plain's last loss another strategy's may be higher after so many steps."""

TOGETHER = (
    "buckets(size_bytes=1024, order='last use') + partition(parts=3) + priority()",
    "buckets(size_bytes=1024) + partition(parts=2) + priority() + overlap_update()",
    "bf16 + overlap_update()",
    "bf16 + partition(parts=2) + priority()",
    "topk(ratio=0.1) + partition(parts=3)",
)
"""Plans of several strategies."""

IMAGES = {
    "batchnorm_relu": "images",
    "channels_last": "images",
    "relu_masks": "images",
    "restructured_norms": "images",
    "restructured_norms()": "images",
}
"""Strategies for convolutional nets, and their texts: the worker then trains its other model."""

ROUNDED = {"channels_last", "compiled", "fused_optimizer", "fused_step", "restructured_norms"}
"""Exact but for the order of arithmetic."""

GraphFor = Callable[[str, str], Graph]

PIPELINE = {"parallel": Parallel.PIPELINE_DATA, "stages": 2, "micro_batches": 2}
JOBS: Mapping[str, Mapping[str, Any]] = {
    "border_topk": PIPELINE,
    "keep_gathered": {"parallel": Parallel.FSDP2},
}
"""What a strategy needs of a job beyond plain data parallelism."""
FORMATS = Loading(formats=(Stored("raw", 10_000, 20_000), Stored("npz", 10_000, 40_000)))
"""What a job's samples took in other formats."""


@pytest.fixture
def graph_for(worker_model: Graph, images: Graph, row_cut: Graph) -> GraphFor:
    """A job that a strategy may change, by the strategy's name and where the job trained."""

    def chosen(name: str, machine: str) -> Graph:
        if name in IMAGES:
            return images
        if name == "overlapped_products":
            return row_cut
        if name in ("substitute", "tensor_parallel"):
            return worker_model
        if (name, machine) in ELSEWHERE:
            pytest.skip(ELSEWHERE[name, machine])
        return job_for(name, machine)

    return chosen


@cache
def job_for(name: str, machine: str) -> Graph:
    made = training(TrainingJob(machine=Machine[machine], **JOBS.get(name, {})))
    return replace(made, facts=replace(made.facts, loading=FORMATS)) if name == "format" else made


ELSEWHERE = {
    ("device", "CPU"): "its example carries a GPU's kernels over, and this job ran on threads",
    ("offload_activations", "CPU"): "activations of threads lie in host memory already",
    ("fused_step", "GPU"): "it works in the memory of hosts, and this job trained on a device",
}


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
    assert kind.conflicts <= set(known()) | CODECS
    assert kind.applies or kind.how, "it says how to get what it cannot apply"


@pytest.mark.parametrize("name", known())
def test_a_strategy_shown_as_text_is_read_back(name: str, graph_for: GraphFor) -> None:
    for one in settings_of(name, graph_for(name, "CPU")):
        assert parse(str(one)) == one
        for field in fields(one):  # type: ignore[arg-type]
            with pytest.raises(FrozenInstanceError):
                setattr(one, field.name, None)


@pytest.mark.parametrize("name", known())
@pytest.mark.parametrize("machine", ["CPU", "GPU"])
def test_choices_fit_and_leave_a_lawful_graph_and_their_own_untouched(
    name: str, machine: str, graph_for: GraphFor
) -> None:
    graph = graph_for(name, machine)
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
    applying = {name for name in known() if kind_of(name).applies}
    # of pipelines, of tensor-parallel layers, of FSDP2, of a device, of loaders (they have tests on
    # real workers of their own)
    elsewhere = {"border_topk", "keep_gathered", "offload_activations", "overlapped_products",
                 "uneven_batches"}  # fmt: skip
    assert set(APPLIED) == applying - elsewhere


COMPILING = {"compiled", "fused_step"}
"""Strategies that make C++ kernels, and refuse where no compiler is there."""


def _where_it_can(name: str, value: str) -> Any:
    """A parameter that is skipped where the machine lacks what the strategy needs."""
    return pytest.param(value, marks=pytest.mark.needs("g++")) if name in COMPILING else value


def _applied_here() -> list[str]:
    able = shutil.which(os.environ.get("CXX", "g++")) is not None
    return [text for name, text in APPLIED.items() if able or name not in COMPILING]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of two workers saw: plain training, and training under each strategy."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("contract")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*command, str(WORKER), str(folder), str(STEPS), *_applied_here(), *VARIANTS, *TOGETHER],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(2)]


Runs = list[dict[str, Any]]
IN_NEED = {"bounded_loss"}
"""Lossy where the network loses packets, and loopback loses none."""
EXACT = [name for name in APPLIED if kind_of(name).effect is Effect.EXACT or name in IN_NEED]
CARRIED_OTHERWISE = [
    *("accumulate", "bounded_loss", "hierarchical", "overlap_update", "parameter_server"),
    *("partition", "priority", "zero1"),
]
"""Exact strategies that change how the bytes of one bucket travel."""
LOSSY = [name for name in APPLIED if kind_of(name).effect is Effect.LOSSY and name not in IN_NEED]
RELAXED = [name for name in APPLIED if kind_of(name).effect is Effect.RELAXED and name != "batch"]
"""The worker makes its batches itself; loaders that `batch` changes have tests of their own."""
SENDING = [name for name in APPLIED if issubclass(kind_of(name), (Coded, Seldom))]
"""Strategies that change what travels."""


@pytest.mark.live
@pytest.mark.parametrize("name", [_where_it_can(name, name) for name in EXACT])
def test_an_exact_strategy_trains_the_very_same_weights(name: str, runs: Runs) -> None:
    for run in runs:
        under, plain = run[APPLIED[name]], run[IMAGES.get(name, "")]
        for what in ("losses", "weights"):
            if name in ROUNDED:
                assert under[what] == pytest.approx(plain[what], rel=1e-5, abs=1e-6)
            else:
                assert under[what] == plain[what]


@pytest.mark.live
@pytest.mark.parametrize("plan", TOGETHER)
def test_a_plan_of_several_learns_what_its_lossy_strategy_alone_learns(
    plan: str, runs: Runs
) -> None:
    lossy = [text for text in plan.split(" + ") if text in map(APPLIED.get, LOSSY)]
    for run in runs:
        assert run[plan]["weights"] == run["".join(lossy)]["weights"]
        assert run[plan]["after"] == run[plan]["fresh"]


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
@pytest.mark.parametrize("name", RELAXED)
def test_a_relaxed_strategy_learns_about_as_well_and_leaves_all_ranks_alike(
    name: str, runs: Runs
) -> None:
    under, plain = runs[0][APPLIED[name]]["losses"], runs[0][""]["losses"]
    assert under[-1] < under[0]
    assert under[-1] <= plain[-1] * (1 + STRAYS[name])
    assert runs[0][APPLIED[name]]["left"] == runs[1][APPLIED[name]]["left"]
    assert runs[0][APPLIED[name]]["left"] != runs[0][""]["weights"]


@pytest.mark.live
def test_the_optimizers_of_workers_that_trained_alone_are_alike_after_leaving(runs: Runs) -> None:
    assert runs[0]["states"] == runs[1]["states"]
    assert all(any(held) for held in runs[0]["states"].values())


@pytest.mark.live
@pytest.mark.parametrize(
    "text", [*(_where_it_can(name, text) for name, text in APPLIED.items()), *VARIANTS]
)
def test_leaving_a_strategy_restores_the_job_and_its_checkpoints(text: str, runs: Runs) -> None:
    for run in runs:
        assert run[text]["after"] == run[text]["fresh"]
        assert run[text]["keys"] == run[IMAGES.get(text, "")]["keys"]


@pytest.mark.live
def test_after_an_error_workers_that_trained_alone_share_gradients_again(runs: Runs) -> None:
    assert runs[0]["raised"] == runs[1]["raised"]
    assert any(runs[0]["raised"])


@pytest.mark.live
def test_a_plan_that_breaks_on_its_way_leaves_the_job_as_it_was(runs: Runs) -> None:
    for run in runs:
        assert "workers(count=99) cannot be switched on" in run["broken"]["said"]
        assert run["broken"]["after"]


LARGEST_BYTES = 4 * 64 * 64
MODEL_BYTES = 4 * (20 * 64 + 64 + 64 * 64 + 64 + 64 * 4 + 4)  # of the worker's model


@pytest.fixture
def drawn(drawn: "Drawn") -> "Drawn":
    """The worker's model, in one bucket, its largest parameter apart."""
    return replace(drawn, first_bytes=MODEL_BYTES - LARGEST_BYTES, second_bytes=LARGEST_BYTES)


REMODELLING = [name for name in APPLIED if issubclass(kind_of(name), Remodelling)]


@pytest.mark.live
@pytest.mark.parametrize("name", CARRIED_OTHERWISE)
def test_what_carries_gradients_otherwise_sends_the_predicted_bytes(
    name: str, runs: Runs, recording: Callable[..., Graph]
) -> None:
    made = parse(APPLIED[name]).transform(recording(2))
    talks = (made.ops.kind == OpKind.COLLECTIVE) & (made.ops.rank == 0)
    talks &= made.ops.step == made.ops.step.max()
    sent: Mapping[str, float] = runs[0][APPLIED[name]]["sent"]
    assert sent["steps"] == STEPS / made.facts.samples
    assert sent["payload_bytes"] == made.ops.size_bytes[talks].sum()
    assert sent["calls"] == talks.sum()


@pytest.mark.live
@pytest.mark.parametrize("text", [*(APPLIED[name] for name in SENDING), *VARIANTS])
def test_the_bytes_that_travel_are_the_predicted_ones(
    text: str, runs: Runs, worker_graph: Graph
) -> None:
    made = parse(text).transform(worker_graph)
    talks = (made.ops.kind == OpKind.COLLECTIVE) & (made.ops.rank == 0)
    sent: Mapping[str, float] = runs[0][text]["sent"]
    assert sent["steps"] == STEPS
    steps = len(np.unique(made.ops.step))
    assert sent["calls"] == talks.sum() / steps
    assert sent["payload_bytes"] == made.ops.size_bytes[talks].sum() / steps


@pytest.mark.live
@pytest.mark.parametrize(
    "text", ["fp16", "topk(ratio=0.1)", "random_block(ratio=0.3)", "dgc(ratio=0.1, warmup=0)"]
)
def test_under_fsdp2_codecs_send_the_predicted_bytes_and_learn_about_as_well(
    text: str, runs: Runs, cut_graph: Graph
) -> None:
    made = check(parse(text).transform(cut_graph))
    talks = (made.ops.collective == Collective.ALL_TO_ALL) & (made.ops.rank == 0)
    for run in runs:
        found, plain = run["fsdp2"][text], run["fsdp2"]["plain"]
        assert found["sent"]["steps"] == STEPS
        assert found["sent"]["calls"] == talks.sum()
        assert found["sent"]["payload_bytes"] == made.ops.size_bytes[talks].sum()
        assert found["losses"][-1] <= plain["losses"][-1] * 1.1
        assert found["losses"] != plain["losses"]
        assert found["restored"]


@pytest.mark.live
def test_weights_that_stay_gathered_learn_the_very_same(runs: Runs) -> None:
    for run in runs:
        under, plain = run["fsdp2"]["keep_gathered()"], run["fsdp2"]["plain"]
        assert under["losses"] == plain["losses"]
        assert under["restored"]


@pytest.mark.live
@pytest.mark.parametrize(
    ("text", "said"),
    [("powersgd", "two rounds over whole"), ("topk(layerwise=True)", "give layerwise=False")],
)
def test_what_fsdp2_cannot_do_is_refused_with_the_reason_in_both_halves(
    text: str, said: str, runs: Runs, cut_graph: Graph
) -> None:
    for run in runs:
        assert said in run["fsdp2"][text]["refused"]
        assert run["fsdp2"][text]["restored"]
    assert "treats each parameter by itself" in str(parse(text).refusal(cut_graph))


@pytest.mark.live
@pytest.mark.parametrize("name", REMODELLING)
def test_the_gradients_of_a_smaller_model_are_the_predicted_ones(
    name: str, runs: Runs, worker_model: Graph
) -> None:
    made = parse(APPLIED[name]).transform(worker_model)
    talks = (made.ops.kind == OpKind.COLLECTIVE) & (made.ops.rank == 0)
    sent: Mapping[str, float] = runs[0][APPLIED[name]]["sent"]
    assert sent["steps"] == STEPS
    assert sent["calls"] == talks.sum()
    assert sent["payload_bytes"] == made.ops.size_bytes[talks].sum()
