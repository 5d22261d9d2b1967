"""How long hosts take to send each other gradients, by the packet simulator."""

from dataclasses import replace

import pytest

from paceline.wire.fabric import EqualExchange, Links, Tolerance, exchange_ns

LINKS = Links(100_000_000, buffer_bytes=64_000)
FRAME = 1514 / 1432  # what a value's bytes take of a link


def line_ns(size_bytes: float) -> float:
    """Of a link that never rests."""
    return size_bytes * FRAME * 8e9 / LINKS.bits_per_s


@pytest.mark.parametrize("hosts", [2, 4])
def test_without_loss_each_host_fills_its_link(hosts: int) -> None:
    asked = EqualExchange((1,) * hosts, 200_000)
    took, line = exchange_ns(asked, LINKS), line_ns((hosts - 1) * 200_000)
    assert line <= took < 1.1 * line


def test_several_members_of_a_host_share_its_link() -> None:
    alone = exchange_ns(EqualExchange((1, 1), 100_000), LINKS)
    assert exchange_ns(EqualExchange((2, 2), 100_000), LINKS) == pytest.approx(4 * alone, rel=0.05)


def test_a_budget_spares_repairs() -> None:
    lossy = replace(LINKS, loss=0.02)
    strict = exchange_ns(EqualExchange((1, 1, 1), 300_000), lossy)
    bounded = exchange_ns(EqualExchange((1, 1, 1), 300_000, Tolerance(0.1)), lossy)
    assert exchange_ns(EqualExchange((1, 1, 1), 300_000), LINKS) < bounded < strict


def test_long_exchanges_go_on_as_their_second_half() -> None:
    short, long = (
        exchange_ns(EqualExchange((1, 1), size), LINKS) for size in (20_000_000, 80_000_000)
    )
    assert long == pytest.approx(4 * short, rel=0.02)
    assert long == pytest.approx(line_ns(80_000_000), rel=0.05)
