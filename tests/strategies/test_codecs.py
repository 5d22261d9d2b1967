"""Codecs alone: what a payload stands for, what is left, and how long it is."""

import pytest

torch = pytest.importorskip("torch")

from paceline.runtime.codecs import Compressor, Sharing, Turn  # noqa: E402
from paceline.strategies import kind_of, known, parse  # noqa: E402
from paceline.strategies.coded import Coded  # noqa: E402

CODECS = [name for name in known() if issubclass(kind_of(name), Coded)]
ONE_ROUND = [name for name in CODECS if name not in ("powersgd", "count_sketch")]
COUNTS = (1, 2, 7, 8, 9, 1000)


def coded(name: str) -> Coded:
    found = parse(name)
    assert isinstance(found, Coded)
    return found


def compressor(name: str) -> Compressor:
    found = coded(name).codec().compressor
    assert isinstance(found, Compressor)
    return found


def drawn(count: int, seed: int = 0) -> "torch.Tensor":
    return torch.randn(count, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", ONE_ROUND)
def test_a_payload_is_as_long_as_predicted_and_both_ways_of_reading_it_agree(
    name: str, count: int
) -> None:
    change, values = coded(name), drawn(count)
    how, turn = compressor(name), Turn(0, 0)
    payload = how.compress(values.clone(), turn)
    if not name.startswith("dgc"):  # its warm-up sends more
        assert payload.numel() * payload.element_size() == change.payload_bytes(count)
    total, added = torch.full((count,), 9.0), torch.zeros(count)
    how.restore(total, payload, turn)
    how.add(added, payload, turn)
    assert torch.allclose(total, added)
    assert (change.codec().sharing, change.codec().feedback) == (change.sharing, change.feedback)


@pytest.mark.parametrize("name", ONE_ROUND)
def test_what_a_payload_stands_for_is_nearer_to_the_gradient_than_nothing(name: str) -> None:
    values, left = drawn(1000), drawn(1000)
    how, turn = compressor(name), Turn(0, 0)
    how.add(left, how.compress(values, turn), turn, times=-1.0)
    assert left.norm() < values.norm()


@pytest.mark.parametrize("name", ["topk(ratio=0.1)", "threshold(ratio=0.1, every=3)"])
def test_with_feedback_every_gradient_arrives_in_the_end(name: str) -> None:
    how, left = compressor(name), drawn(50)
    for step in range(30):
        turn = Turn(0, step)
        how.add(left, how.compress(left, turn), turn, times=-1.0)
    assert left.norm() < 0.5 * drawn(50).norm()


@pytest.mark.parametrize("count", [*COUNTS, 4096])
def test_the_places_above_a_bound_are_found_in_order(count: int) -> None:
    from paceline.runtime.codecs.torch_largest import Above

    for seed, bound in ((1, 0.0), (2, 1.0), (3, 9.0)):
        values = drawn(count, seed)
        expected = (values.abs() >= bound).nonzero().flatten()
        assert torch.equal(Above(values).places(values, bound), expected)


def test_one_bit_keeps_signs_and_the_mean_of_each() -> None:
    values, found = torch.tensor([1.0, -2.0, 3.0, -4.0, 0.0]), torch.zeros(5)
    how = compressor("onebit")
    how.add(found, how.compress(values, Turn(0, 0)), Turn(0, 0))
    assert torch.allclose(found, torch.tensor([4 / 3, -3.0, 4 / 3, -3.0, 4 / 3]))


def test_a_random_block_is_drawn_alike_and_moves_over_the_whole_bucket() -> None:
    how, seen = compressor("random_block(ratio=0.1)"), torch.zeros(100)
    for step in range(200):
        how.add(seen, how.compress(torch.ones(100), Turn(0, step)), Turn(0, step))
    assert (seen > 0).all()
    assert coded("random_block").codec().sharing is Sharing.SUM
