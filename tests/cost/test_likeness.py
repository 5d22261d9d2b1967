"""Devices that nobody measured take after measured ones that are like them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cluster.files import device
from paceline.cost.forecast import Constants, ForecastQuestion, load, save, sheet_of
from paceline.cost.forecast.asked import seconds
from paceline.cost.forecast.elements import ELEMENTS
from paceline.cost.forecast.fitting import Effort, Sample, fit, taught_without
from paceline.cost.forecast.likeness import LEAST, likeness, of_compute, of_links
from paceline.cost.forecast.net import Learning
from paceline.cost.forecast.sheet import Sheet
from paceline.graph.kinds import DType

H100, H200, L4 = (sheet_of(device(name)) for name in ("h100", "h200", "l4"))
FEW = Learning((8, 8), 300, batch=64)
QUICK = Effort(net=FEW, known=FEW, alike=FEW)


def measured(sheet: Sheet, slower: float, count: int = 300) -> Sample:
    """Copies whose rate a device reaches `slower` times less well than its sheet says."""
    moved = np.geomspace(1e6, 1e10, count).astype(np.float32)
    ones = np.ones_like(moved)
    dims = {"count": moved / 8, "inputs": ones, "size_bytes": moved, "operator": -ones}
    took = 20e-6 + slower * moved / np.float32(0.8 * sheet.memory_bytes_per_s)
    return Sample(ELEMENTS, ForecastQuestion(dims, DType.FLOAT32, sheet), took.astype(np.float32))


@given(*[st.floats(-3, 3)] * 4)
def test_likeness_is_mutual_and_whole_only_of_the_same(
    a: float, b: float, c: float, d: float
) -> None:
    one, other = (a, b), (c, d)
    (there,), (back,) = likeness(one, [other]), likeness(other, [one])
    assert there == back
    assert 0 <= there <= 1
    assert likeness(one, [one]) == [1.0]


def test_the_further_the_less_and_beyond_a_distance_nothing() -> None:
    likes = likeness((0.0,), [(0.1,), (0.5,), (1.0,), (3.0,)])
    assert likes == sorted(likes, reverse=True)
    assert likes[2] > LEAST
    assert likes[3] == 0


def test_an_h200_is_like_an_h100_and_an_l4_is_not() -> None:
    mine = of_compute(H200, DType.BFLOAT16)
    like, far = likeness(mine, [of_compute(one, DType.BFLOAT16) for one in (H100, L4)])
    assert like > 0.5
    assert far == 0
    links = [of_links(one, DType.FLOAT16) for one in (H200, H100, L4)]
    like, far = likeness(links[0], links[1:])
    assert like > 0.5
    assert far == 0


def test_a_device_of_the_same_sheet_is_forecast_as_the_measured_one() -> None:
    learned = fit([measured(H100, 1.5), measured(L4, 1.0)], QUICK)
    twin = measured(replace(H100, name="twin"), 1.5)
    told, known = (
        seconds(ELEMENTS, replace(twin.question, sheet=sheet), learned)
        for sheet in (twin.question.sheet, H100)
    )
    assert told == pytest.approx(known, rel=1e-4)


def test_a_device_that_is_like_none_has_what_all_taught() -> None:
    learned = fit([measured(H100, 1.5), measured(H200, 1.5)], QUICK)
    far = measured(L4, 1.0)
    told = seconds(ELEMENTS, far.question, learned)
    alone = seconds(ELEMENTS, far.question, replace(learned, known=None, devices=(), traits=()))
    assert (told == alone).all()


def test_a_left_out_device_is_taught_by_its_like() -> None:
    others = [measured(sheet_of(device(name)), 1.0) for name in ("l4", "t4")]
    samples = [measured(H100, 2.0), measured(H200, 2.0), *others]
    taught = taught_without(samples[0], samples, QUICK)
    assert taught is not None
    assert taught.devices == ("h200", "l4", "t4")
    told = seconds(ELEMENTS, samples[0].question, taught)
    plain = seconds(ELEMENTS, samples[0].question, replace(taught, known=None))
    off = [np.abs(one / samples[0].seconds - 1).mean() for one in (told, plain)]
    assert off[0] < off[1]


def test_traits_come_back_from_the_file_of_constants(tmp_path: Path) -> None:
    learned = fit([measured(H100, 1.0), measured(L4, 1.0)], QUICK)
    save(Constants({"pointwise.float32.nvidia": learned}), tmp_path / "c.npz")
    found = load(tmp_path / "c.npz").learned["pointwise.float32.nvidia"]
    assert np.array(found.traits) == pytest.approx(np.array(learned.traits), abs=1e-3)
