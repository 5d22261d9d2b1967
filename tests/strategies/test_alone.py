"""A job of one worker: what needs others says so, and what does not is predicted."""

import json
from pathlib import Path

import pytest

from paceline.cli import main
from paceline.errors import PacelineError
from paceline.graph import Facts, Graph, GraphBuilder, Parameter, Phase, Role, check
from paceline.graph.files import save_graph
from paceline.strategies import known, parse

WEIGHT = Parameter("0.weight", 4 * 64 * 64, (64, 64), "0", Role.LINEAR_WEIGHT)


@pytest.fixture
def alone() -> Graph:
    """A linear layer on one thread."""
    b = GraphBuilder(facts=Facts(world_size=1, parameters=(WEIGHT,)))
    thread = b.lane()
    b.op("aten::linear", thread, 800, phase=Phase.FORWARD, layer="0")
    b.op("aten::mm", thread, 1600, phase=Phase.BACKWARD, layer="0", tensor=WEIGHT.name)
    b.op("sgd", thread, 80, phase=Phase.UPDATE)
    return check(b.build())


@pytest.mark.parametrize(
    "text",
    [
        *("accumulate(steps=2)", "buckets(size_bytes=1)", "partition(parts=2)", "priority"),
        *("hierarchical(on_host=2)", "parameter_server", "early_update", "overlap_update"),
        *("topk", "powersgd", "zero1", "local_sgd", "fused_step", "bounded_loss"),
    ],
)
def test_what_changes_an_exchange_says_that_one_worker_has_none(text: str, alone: Graph) -> None:
    with pytest.raises(PacelineError, match="one worker"):
        parse(text).transform(alone)


def test_a_smaller_model_needs_no_other_worker(alone: Graph) -> None:
    made = check(parse("factored(rank=4)").transform(alone))
    assert made.ops.dur_ns[0] == 100
    assert made.ops.dur_ns[-1] == 10


def test_every_strategy_fits_it_or_says_why(
    alone: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_graph(alone, tmp_path / "run")
    assert main(["strategies", str(tmp_path / "run"), "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["strategies"]}
    assert rows.keys() == set(known())
    assert "one worker" in rows["adaptive_topk"]["refusal"]
    assert rows["bounded_loss"]["refusal"] is not None
    assert rows["fused_optimizer"]["refusal"] is not None
