"""The suite by name."""

import subprocess
import sys

import pytest

from paceline.bench import BenchError, chosen, named, names
from paceline.bench.workload import Domain, Quality


def test_nothing_asked_for_is_all_of_them() -> None:
    assert chosen(()) == names()
    assert chosen(["spiking-population", "vit"]) == ("spiking_population", "vit")


@pytest.mark.parametrize(("wrong", "meant"), [("resnet5", "resnet50"), ("decodr", "decoder")])
def test_an_unknown_workload_gets_the_nearest_name(wrong: str, meant: str) -> None:
    with pytest.raises(BenchError, match=f"{wrong}.*did you mean {meant}") as told:
        chosen([wrong])
    assert "There are actor_critic, " in str(told.value)


def test_names_are_known_without_torch() -> None:
    code = "import sys; from paceline.bench import names; names(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.needs("torch")
def test_a_workload_is_called_as_its_file_and_tries_the_batch_that_it_trains_with() -> None:
    for name in names():
        found = named(name)
        assert found.name == name
        assert found.pace.batch in found.pace.batches
        assert found.pace.steps % found.pace.every == 0


@pytest.mark.needs("torch")
def test_every_domain_has_a_workload() -> None:
    assert {named(name).domain for name in names()} == set(Domain)


def test_a_quality_is_reached_from_its_own_side() -> None:
    assert Quality("accuracy", 0.8).reached(0.8)
    assert not Quality("error", 0.1, at_least=False).reached(0.11)
