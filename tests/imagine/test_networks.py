"""Convolutional networks drawn at random: built, imagined, measured, searched."""

import pytest

from paceline.imagine.network_space import FAMILIES, ImageNetwork, drawn, drawn_cells
from paceline.search.networks import Guessed, within_latency


def test_networks_differ_and_every_family_has_its_turn() -> None:
    found = drawn(2 * len(FAMILIES), seed=4)
    assert len(set(found)) == len(found)
    assert [each.family for each in found] == [*FAMILIES, *FAMILIES]
    assert found == drawn(2 * len(FAMILIES), seed=4)
    assert found != drawn(2 * len(FAMILIES), seed=5)
    assert all(len(each.cell) == 6 for each in drawn_cells(5, seed=1))


def space(*rows: tuple[str, int, float]) -> list[Guessed[str]]:
    return [Guessed(*row) for row in rows]


TOOK = {"a": 10, "b": 20, "c": 30, "d": 40, "e": 50}


def test_good_guesses_find_the_most_arithmetic_within_the_limit() -> None:
    guessed = space(*((name, 100 - took, took / 1000) for name, took in TOOK.items()))
    found = within_latency(guessed, TOOK.__getitem__, limit_ns=25, measurements=3)
    assert found.best is not None
    assert found.best.candidate == "a"
    assert found.latency_ns == 10


def test_a_search_measures_no_more_than_it_may() -> None:
    asked: list[str] = []

    def measure(name: str) -> int:
        asked.append(name)
        return TOOK[name]

    guessed = space(*((name, took, 1.0) for name, took in TOOK.items()))
    found = within_latency(guessed, measure, limit_ns=35, measurements=4)
    assert len(asked) == len(set(asked)) == found.measured == 4
    assert found.best is not None
    assert found.best.candidate == "c"


def test_a_limit_that_nothing_keeps_finds_nothing() -> None:
    found = within_latency(space(("a", 1, 1.0)), TOOK.__getitem__, limit_ns=5, measurements=3)
    assert found.best is None
    assert found.within == 0


@pytest.mark.needs("torch", "torchvision")
def test_a_networks_arithmetic_is_that_of_torchs_own_count() -> None:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from paceline.cost.network import network_flops
    from paceline.imagine.torch_network import calls_of
    from paceline.imagine.torch_zoo import imagined

    for network in drawn(len(FAMILIES), seed=6):
        model = imagined(network)
        with torch.no_grad(), FlopCounterMode(display=False) as counted:
            model(torch.empty(network.shape, device="meta"))
        assert network_flops(calls_of(model, network.shape)) == counted.get_total_flops()


@pytest.mark.needs("torch", "torchvision")
def test_a_measured_network_makes_the_calls_that_were_imagined() -> None:
    from paceline.feed.torch_run import one_thread
    from paceline.imagine.torch_network import calls_of
    from paceline.imagine.torch_zoo import built, imagined
    from paceline.measure.torch_network import measured

    small = (
        ImageNetwork("mobilenet_v3", 0.5, 0.5, 64),
        ImageNetwork("cell", 0.5, 0.3, 16, (3, 1, 4, 2, 0, 3)),
    )
    for network in small:
        with one_thread():
            found = measured(str(network), built(network), network.shape)
        assert found.calls == calls_of(imagined(network), network.shape)
        assert min(found.call_ns) > 0
        assert found.latency_ns > 0


@pytest.mark.needs("torch", "torchvision")
def test_a_network_that_is_not_in_the_zoo_is_refused() -> None:
    from paceline.imagine.imagined import ImagineError
    from paceline.imagine.torch_zoo import zoo, zoo_model

    assert {"resnet50", "mobilenet_v2", "efficientnet_b0"} <= set(zoo())
    assert not [name for name in zoo() if name.startswith("vit")]
    with pytest.raises(ImagineError, match="no network of the zoo is called 'resnet5'"):
        zoo_model("resnet5")
