"""`zero1`: each rank updates what it owns, and gathers the rest."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import GraphError
from paceline.graph import UNPRICED, Collective, Graph, OpKind, Phase, check, select
from paceline.graph.sharded_update import owners
from paceline.graph.synthetic import MachineKind, TrainingJob, training
from paceline.replay import replay
from paceline.strategies import parse, transformed


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=30), st.integers(1, 6))
def test_no_owner_has_more_than_its_share_and_the_largest(sizes: list[int], ranks: int) -> None:
    owner = owners(sizes, ranks)
    held = np.bincount(owner, sizes, ranks)
    assert held.max() <= sum(sizes) / ranks + max(sizes)


@pytest.mark.parametrize("machine", MachineKind)
def test_the_update_takes_the_time_of_what_a_rank_owns(machine: MachineKind) -> None:
    graph = training(TrainingJob(machine=machine, workers=4))
    made = check(parse("zero1").transform(graph))
    took = [made.ops.dur_ns[select(made, f"rank={r},name=adam")].sum() for r in range(4)]
    assert took == [TrainingJob().update_ns // 4] * 4
    assert made.facts.update_shards == 4


@pytest.mark.parametrize("codec", ["bf16", "topk(ratio=0.1, layerwise=True)", "count_sketch"])
def test_gradients_may_travel_in_another_form(codec: str) -> None:
    graph = training(TrainingJob(workers=4))
    made = check(transformed(graph, [parse(codec), parse("zero1")]))
    took = [made.ops.dur_ns[select(made, f"rank={r},name=adam")].sum() for r in range(4)]
    assert took == [TrainingJob().update_ns // 4] * 4
    assert len(select(made, "name=gather weights")) == 4


def test_weights_are_gathered_behind_the_update_and_waited_for(
    recording: Callable[..., Graph],
) -> None:
    made = check(parse("zero1").transform(recording()))
    line = replay(made, prices=np.where(made.ops.dur_ns == UNPRICED, 7, made.ops.dur_ns))
    update = int(select(made, "rank=0,name=sgd")[0])
    gather = int(np.argmax(made.ops.collective == Collective.ALL_GATHER))
    assert made.ops.size_bytes[gather] == 2 * 600  # w1 has an owner of its own
    assert made.ops.dur_ns[update] == 36  # 60 of 600 in 1000 bytes
    assert line.start_ns[gather] == line.end_ns[update] + 7
    assert line.step_ns == line.end_ns[gather] + 7


def test_copies_of_weights_are_priced_by_the_bytes_that_they_touch() -> None:
    made = parse("zero1").transform(training(TrainingJob()))
    copies = (made.ops.phase == Phase.UPDATE) & (made.ops.dur_ns == UNPRICED)
    assert (made.ops.kind[copies] == OpKind.COMPUTE).all()
    assert set(made.ops.size_bytes[copies].tolist()) == {2 * (8 << 20), 2 * (16 << 20)}


def test_an_update_that_is_cut_already_is_refused(recording: Callable[..., Graph]) -> None:
    once = parse("zero1").transform(recording())
    for graph in (recording(told=False), once):
        with pytest.raises(GraphError, match="cannot be cut among them"):
            parse("zero1").transform(graph)
