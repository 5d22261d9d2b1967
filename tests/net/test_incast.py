"""The lab's incast: all contenders cross the same queues, and the transport loses only what the
network loses."""

from dataclasses import replace

import pytest

from paceline.lab import LabError
from paceline.lab.commands import losses
from paceline.lab.incast import Setting, incast, summary
from paceline.lab.lab import Lab
from paceline.wire.contenders import GLOO, LOSSLESS, TCP, TEN_PERCENT, Contender, Timed, at_hand

SMALL = Setting(senders=2, size_bytes=100_000)


@pytest.mark.net
@pytest.mark.live
@pytest.mark.needs("root", "namespaces", "iproute2", "nft", "native")
@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_rounds_are_no_shorter_than_the_link_and_drop_values_only_for_loss(loss: float) -> None:
    setting = replace(SMALL, loss=loss)
    timed = incast(setting, [TCP[0], LOSSLESS, TEN_PERCENT], rounds=6, timeout_s=120)
    tcp, lossless, bounded = (summary(setting, one) for one in timed)
    for row in (tcp, lossless):
        assert row.lost_share == 0
        assert row.p50_ms > 0.95 * row.ideal_ms  # a millisecond's burst may go ahead of the rate
    assert (bounded.lost_share > 0) == (loss > 0)
    assert bounded.lost_share <= 0.1
    assert timed[1].counters["early_stops"] == 0


@pytest.mark.net
@pytest.mark.live
@pytest.mark.needs("root", "namespaces", "iproute2", "nft", "torch")
def test_gloo_crosses_the_same_queues() -> None:
    timed = incast(SMALL, GLOO[:2], rounds=4, timeout_s=120)
    for one in timed:
        row = summary(SMALL, one)
        assert row.is_tcp
        assert row.lost_share == 0
        assert row.p50_ms > 0.95 * row.ideal_ms


def test_gloo_is_no_contender_where_torch_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert at_hand(TCP) == list(TCP)
    monkeypatch.setattr("paceline.wire.contenders.find_spec", lambda name: None)
    assert at_hand((*TCP, *GLOO)) == list(TCP)


def test_a_summary_counts_only_the_bytes_that_were_needed() -> None:
    contender = Contender("half", budget=0.5)
    size = SMALL.senders * SMALL.size_bytes
    row = summary(SMALL, Timed(contender, (3_000_000, 1_000_000), (0, size // 2), {}))
    assert (row.p50_ms, row.p99_ms, row.max_ms) == (1, 3, 3)
    assert row.lost_share == 0.25
    assert row.ideal_ms == pytest.approx(0.75 * SMALL.ideal_ns / 1e6)


def test_bursts_of_loss_have_their_share_and_length() -> None:
    setting = Setting(loss=0.05, loss_burst_ms=4)  # 33 packets of a full link
    layout = Lab(setting.cluster(), "a", setting.stack()).layout
    assert "timeout 4ms" in losses(layout, 0)
    assert "numgen random mod 1000000 < 754 add @burst" in losses(layout, 0)
    alone = Lab(setting.cluster(), "a").layout
    assert "numgen random mod 1000000 < 25000" in losses(alone, 0)


@pytest.mark.parametrize("wrong", [{"senders": 0}, {"size_bytes": 3}, {"size_bytes": 0}])
def test_an_incast_that_cannot_be_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(LabError, match="at least one sender"):
        replace(SMALL, **wrong)
