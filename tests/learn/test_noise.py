"""The gradient noise scale from two batch sizes: right where it is known, else refused."""

from pathlib import Path

import numpy as np
import pytest

from paceline.learn import LearnError
from paceline.learn.noise import Norms, load_noise, noise_scale, save_noise


def drawn(scatter: float, workers: int = 4, steps: int = 400) -> list[Norms]:
    """Each worker's gradient is (3, 4) plus noise in 50 dimensions; |G|^2 is 25."""
    chance = np.random.default_rng(0)
    found = []
    for _ in range(steps):
        gradients = scatter * chance.normal(size=(workers, 50))
        gradients[:, :2] += (3, 4)
        mean = gradients.mean(axis=0)
        found.append(Norms(float((gradients**2).sum(axis=1).mean()), float(mean @ mean), workers))
    return found


@pytest.mark.parametrize("scatter", [0.5, 1.0, 3.0])
def test_it_is_what_the_gradients_were_drawn_with(scatter: float) -> None:
    found = noise_scale(drawn(scatter), 4)
    true = 50 * scatter**2 / 25 / 4  # in batches of all four workers
    assert found.batches == pytest.approx(true, rel=0.1)
    assert found.low <= found.batches <= found.high
    assert found.of_workers(8) == pytest.approx(found.batches / 2)


def test_gradients_without_noise_have_none() -> None:
    assert noise_scale(drawn(0.0), 4).batches == 0


def test_where_nothing_can_be_told_it_says_why() -> None:
    with pytest.raises(LearnError, match="two sizes"):
        noise_scale([Norms(1.0, 1.0, 1)] * 20, 1)
    with pytest.raises(LearnError, match="3 steps"):
        noise_scale([Norms(1.0, 1.0, 2)] * 3, 2)
    with pytest.raises(LearnError, match="no more than chance"):
        noise_scale([Norms(1.0, 0.5, 2)] * 20, 2)
    with pytest.raises(LearnError, match="not a number"):
        noise_scale([Norms(float("nan"), 0.5, 2)] * 20, 2)


def test_it_is_kept_and_read_again(tmp_path: Path) -> None:
    found = noise_scale(drawn(1.0), 4)
    save_noise(found, tmp_path / "noise.json")
    assert load_noise(tmp_path / "noise.json") == found
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(LearnError, match="no noise scale"):
        load_noise(tmp_path / "other.json")
    with pytest.raises(LearnError, match="makes one"):
        load_noise(tmp_path / "none.json")
