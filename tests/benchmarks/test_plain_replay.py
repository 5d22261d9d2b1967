"""The plain replay that ours is compared with gives the same step."""

import pytest
from benchmarks.plain_replay import Plain

from paceline.errors import ReplayError
from paceline.graph import Discipline
from paceline.graph.synthetic import Ring, jumble, ring
from paceline.replay import replay


@pytest.mark.parametrize("discipline", Discipline)
def test_plain_replay_gives_the_same_step_of_training_over_rings(discipline: Discipline) -> None:
    graph = ring(Ring(ranks=4, layers=20, tensors=10, jitter=0.05, discipline=discipline))
    assert Plain.of(graph).step_ns() == replay(graph).step_ns


@pytest.mark.parametrize("recorded", [True, False])
def test_plain_replay_gives_the_same_step_of_random_graphs(recorded: bool) -> None:
    equal = 0
    for seed in range(400):
        graph = jumble(seed, recorded=recorded)
        if len(graph.drains.op):
            continue
        try:
            exact = replay(graph).step_ns
        except ReplayError:
            continue  # ops that wait for each other
        assert Plain.of(graph).step_ns() == exact, seed
        equal += 1
    assert equal > 100


def test_plain_replay_refuses_drains() -> None:
    drained = next(g for g in map(jumble, range(100)) if len(g.drains.op))
    with pytest.raises(ValueError, match="knows no drains"):
        Plain.of(drained)
