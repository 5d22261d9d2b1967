"""Sparse codecs and the optimizer whose momentum they may take over."""

from dataclasses import replace

import pytest

from paceline.graph import Graph
from paceline.graph.facts import Optimizer
from paceline.graph.synthetic import TrainingJob, training
from paceline.strategies import StrategyError, parse


def trained_with(optimizer: str) -> Graph:
    graph = training(TrainingJob())
    return replace(graph, facts=replace(graph.facts, optimizer=Optimizer(optimizer)))


def test_only_the_momentum_of_sgd_is_taken_over() -> None:
    change = parse("topk(ratio=0.1, momentum='before')")
    assert change.refusal(trained_with("SGD")) is None
    with pytest.raises(StrategyError, match="of SGD, and this job trains with Adam; give"):
        change.transform(trained_with("Adam"))
