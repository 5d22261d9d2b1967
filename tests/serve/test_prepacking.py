"""Prepacked weights: the same answers, from oneDNN's own kernels, and only where that is faster."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paceline.serve import prepacking
from paceline.serve.prepacking import LEAST_GAIN, prepack, same
from paceline.serve.template import Packing, template
from paceline.serve.topology import pinned, topology_here

FILE = Path(__file__).parent / "served_model.py"
pytestmark = [pytest.mark.live, pytest.mark.needs("linux", "torch", "serve")]


def test_answers_are_the_same_but_for_rounding() -> None:
    one = {"a": np.array([1.0, -200.0, np.nan]), "b": np.array([3])}
    assert same(one, {"a": np.array([1.1, -200.1, np.nan]), "b": np.array([3])})
    assert not same(one, {"a": np.array([1.5, -200.0, np.nan]), "b": np.array([3])})
    assert not same(one, {"a": one["a"], "b": np.array([4])})
    assert not same(one, {"a": one["a"][:2], "b": one["b"]})
    assert not same(one, {"a": one["a"]})


Answers = Mapping[str, Any]


BATCHES = (1, 3)


async def _both(target: str, threads: int) -> tuple[Packing, list[tuple[Answers, Answers]]]:
    """What was packed, and by batch the example's answers on the weights as written and on packed
    ones."""
    places = pinned(topology_here(), [threads])
    async with template(target) as model:
        found = await model.prepack()
        async with model.instances(places) as (written,):
            model.prepacked = True
            async with model.instances(places) as (ours,):
                return found, [
                    (await written.example(batch, 60), await ours.example(batch, 60))
                    for batch in BATCHES
                ]


@pytest.mark.parametrize(
    ("function", "weights", "folded"),
    [("images", 4, 2), ("layers", 4, 0), ("build", 1, 0), ("pair", 0, 0)],
)
def test_prepacked_weights_answer_as_the_written_ones(
    function: str, weights: int, folded: int
) -> None:
    threads = min(2, len(topology_here().processors))
    found, answers = asyncio.run(_both(f"{FILE}:{function}", threads))
    assert (found.weights, found.folded, found.why) == (weights, folded, "")
    for batch, (written, ours) in zip(BATCHES, answers, strict=True):
        assert same(written, ours)
        assert all(len(answer) == batch for answer in ours.values())


@pytest.mark.parametrize("function", ["changing", "changing_with_bias", "changing_images"])
def test_instances_take_the_packed_weights(function: str) -> None:
    """They stay as they were where the model changes its own."""
    threads = min(2, len(topology_here().processors))
    found, answers = asyncio.run(_both(f"{FILE}:{function}", threads))
    assert found.weights == 1
    assert not any(same(written, ours) for written, ours in answers)


async def _prepacked(target: str) -> tuple[bool, bool, list[str]]:
    said: list[str] = []
    async with template(target) as model:
        found = await prepack(model, topology_here(), 4, said.append)
        return found, model.prepacked, said


def test_a_model_that_changes_its_weights_keeps_them() -> None:
    found, template_is, said = asyncio.run(_prepacked(f"{FILE}:changing"))
    assert (found, template_is) == (False, False)
    assert said == ["weights stay as they were written: prepacked, they give other answers"]


def test_what_has_no_weights_is_left_alone() -> None:
    found, _, said = asyncio.run(_prepacked(f"{FILE}:pair"))
    assert not found
    assert said == ["weights stay as they were written: none of them can be prepacked"]


@pytest.mark.parametrize("gain", [LEAST_GAIN - 0.01, LEAST_GAIN + 0.01])
def test_prepacked_is_what_is_faster(gain: float, monkeypatch: pytest.MonkeyPatch) -> None:
    async def as_told(*_: Any) -> float:
        return gain

    monkeypatch.setattr(prepacking, "_gain", as_told)
    found, template_is, said = asyncio.run(_prepacked(f"{FILE}:images"))
    assert (found, template_is) == (gain >= LEAST_GAIN,) * 2
    times = f"{gain:.2f} times as fast on 1 and {gain:.2f} times as fast on 4"
    if found:
        assert said == [f"4 weights prepacked for oneDNN, 2 batch norms folded: {times}"]
    else:
        assert said == [f"weights stay as they were written: prepacked, they are {times}"]


def test_both_are_timed_in_turn() -> None:
    async def gain() -> float:
        place = pinned(topology_here(), [1])
        async with template(f"{FILE}:layers") as model, model.instances(place) as (one,):
            return await prepacking._gain(one, one, 2)

    assert 0.1 < asyncio.run(gain()) < 10  # of an instance over itself
