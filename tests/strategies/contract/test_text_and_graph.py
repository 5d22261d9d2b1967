"""What every strategy keeps, those of other packages too: its text, and its change of a graph."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from functools import cache
from itertools import permutations
from sys import modules
from typing import Any

import numpy as np
import pytest

from paceline.graph import Graph, check
from paceline.graph.facts import Loading, Stored
from paceline.graph.synthetic import Parallel, TrainingJob, training
from paceline.graph.synthetic.training_lanes import MachineKind
from paceline.strategies import Effect, Plan, Strategy, StrategyError, kind_of, known, parse
from paceline.strategies.coded import CODECS
from paceline.strategies.strategy import name_of

EXAMPLES = {
    "bounded_loss": "bounded_loss",
    "device": "device(name='h200', recorded='a100-80')",
    "late_gradients": "late_gradients(first=2)",
    "offload_activations": "offload_activations",
    "scale": "scale(select='phase=backward', factor=0.5)",
    "sufficient_factors": "sufficient_factors(rows=1)",
    "uneven_batches": "uneven_batches(shares=(3.0, 1.0))",
}
"""Settings of strategies that have none worth trying on every job."""

IMAGES = ("batchnorm_relu", "channels_last", "relu_masks", "restructured_norms")
"""Strategies for convolutional nets."""

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
def graph_for(worker_model: Graph, images: Graph, row_cut: Graph, products: Graph) -> GraphFor:
    """A job that a strategy may change, by the strategy's name and where the job trained."""

    def chosen(name: str, machine: str) -> Graph:
        if name in IMAGES:
            return images
        if name == "overlapped_products":
            return row_cut
        if name == "fp8":
            return products
        if name in ("compiled", "substitute", "tensor_parallel"):
            return worker_model
        if (name, machine) in ELSEWHERE:
            pytest.skip(ELSEWHERE[name, machine])
        return job_for(name, machine)

    return chosen


@cache
def job_for(name: str, machine: str) -> Graph:
    made = training(TrainingJob(machine=MachineKind[machine], **JOBS.get(name, {})))
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


@pytest.mark.parametrize("name", sorted({*known()} - {"workers"}))  # live: as many as there are
def test_a_strategy_says_that_it_changes_live_jobs_where_it_does(name: str) -> None:
    kind = kind_of(name)
    assert kind.applies == (kind.apply is not Strategy.apply)


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
        changed = one.transform(graph)
        check(changed)
        assert all(line for line in one.rests_on(changed))
    after = columns(graph)
    assert all(np.array_equal(before[key], after[key]) for key in before)


UNTRIED = "late_gradients"
"""Behind layers that are made anew it finds no products; before them nobody has tried it live."""


def test_an_order_that_alone_works_is_data(worker_model: Graph) -> None:
    """Where one of two strategies can be made behind the other alone, a plan says so."""
    made = dict(_each_made(worker_model))
    for (one, first), (other, second) in permutations(made.items(), 2):
        if UNTRIED in map(name_of, (type(one), type(other))) or not _ordered(one, other):
            continue
        if other.refusal(first) is not None:
            assert one.refusal(second) is not None, f"{other} works before {one} alone; tell it"


def _each_made(graph: Graph) -> Iterator[tuple[Strategy, Graph]]:
    """Of each that changes live jobs of this sort the first choice, and the graph behind it."""
    for name in known():
        kind = kind_of(name)
        example = [parse(EXAMPLES[name])] if name in EXAMPLES else []
        for change in [*kind.choices(graph), *example][: kind.applies]:
            if change.refusal(graph) is None:
                yield change, change.transform(graph)


def _ordered(one: Strategy, other: Strategy) -> bool:
    try:
        Plan((one, other))
    except StrategyError:
        return False
    return True


def columns(graph: Graph) -> dict[str, Any]:
    tables = {"ops": graph.ops, "deps": graph.deps}
    return {
        f"{table}.{field.name}": getattr(owner, field.name).copy()
        for table, owner in tables.items()
        for field in fields(owner)
    }
