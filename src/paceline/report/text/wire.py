"""Rounds of an incast as a table: each contender's times beside the ideal, and what was lost."""

from collections.abc import Iterable

from paceline.lab.incast import IncastRow, Setting
from paceline.lab.overload import Loaded
from paceline.lab.spraying import Sprayed


def setting_line(setting: Setting) -> str:
    how = f"in bursts of {setting.loss_burst_ms} ms" if setting.loss_burst_ms else "at random"
    loss = f"{setting.loss:.1%} of packets lost, {how}" if setting.loss else "no loss"
    return (
        f"{setting.senders} senders of {setting.size_bytes / 1e3:g} KB each, "
        f"{setting.bits_per_s / 1e6:g} Mbit/s, queues of {setting.queue_bytes / 1e3:g} KB, {loss}; "
        f"ideal {setting.ideal_ns / 1e6:.1f} ms"
    )


def table(rows: Iterable[IncastRow]) -> list[str]:
    shown = list(rows)
    rounds = f"{shown[0].rounds} rounds of each; ms" if shown else ""
    head = f"  {rounds:37}{'p50':>7}{'p99':>7}{'longest':>8}{'p99/ideal':>10} without"
    return [head, *map(_line, shown)]


def _line(row: IncastRow) -> str:
    return (
        f"  {row.name:37}{row.p50_ms:7.1f}{row.p99_ms:7.1f}{row.max_ms:8.1f}"
        f"{row.p99_of_ideal:10.3f}{row.lost_share:8.3%}"
    )


def load_line(found: Loaded) -> str:
    return (
        f"{found.offered:.0%} of a link offered: {found.important.lost_share:.3%} of important "
        f"packets lost, p99 delay {found.important.p99_ns / 1e6:.1f} ms; "
        f"{found.other.lost_share:.1%} of others"
    )


def sprayed_line(found: Sprayed) -> str:
    return (
        f"packets sprayed over two paths: {found.two_paths / 1e6:.1f} Mbit/s, {found.gain:.2f} "
        f"times one of them ({found.one_path / 1e6:.1f})"
    )
