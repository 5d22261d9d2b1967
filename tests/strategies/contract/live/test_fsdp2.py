"""Strategies under FSDP2, which reduces and gathers by itself."""

from typing import Any

import pytest

from paceline.graph import Collective, Graph, check
from paceline.strategies import parse

pytestmark = pytest.mark.live
Runs = list[dict[str, Any]]


@pytest.mark.parametrize(
    "text", ["fp16", "topk(ratio=0.1)", "random_block(ratio=0.3)", "dgc(ratio=0.1, warmup=0)"]
)
def test_under_fsdp2_codecs_send_the_predicted_bytes_and_learn_about_as_well(
    text: str, runs: Runs, steps: int, cut_graph: Graph
) -> None:
    made = check(parse(text).transform(cut_graph))
    talks = (made.ops.collective == Collective.ALL_TO_ALL) & (made.ops.rank == 0)
    for run in runs:
        found, plain = run["fsdp2"][text], run["fsdp2"]["plain"]
        assert found["sent"]["steps"] == steps
        assert found["sent"]["calls"] == talks.sum()
        assert found["sent"]["payload_bytes"] == made.ops.size_bytes[talks].sum()
        assert found["losses"][-1] <= plain["losses"][-1] * 1.1
        assert found["losses"] != plain["losses"]
        assert found["restored"]


def test_weights_that_stay_gathered_learn_the_very_same(runs: Runs) -> None:
    for run in runs:
        under, plain = run["fsdp2"]["keep_gathered()"], run["fsdp2"]["plain"]
        assert under["losses"] == plain["losses"]
        assert under["restored"]


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


@pytest.mark.parametrize(
    "text", ["topk(ratio=0.1) + partition(parts=2)", "accumulate(steps=2) + fp16"]
)
def test_beside_a_codec_nothing_is_left_undone_in_silence(text: str, runs: Runs) -> None:
    for run in runs:
        assert "leave all but the codec out" in run["fsdp2"][text]["refused"]
        assert run["fsdp2"][text]["restored"]
