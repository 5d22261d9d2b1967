"""`lab incast` and `lab wire`. Not a command: its name begins with an underscore."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from paceline.cli import Shown
from paceline.cli._arguments import count
from paceline.lab.incast import Row, Setting, summary
from paceline.lab.incast import incast as timed_rounds
from paceline.report.text.wire import setting_line, table
from paceline.wire.contenders import ABLATIONS, MAIN, Contender

LOSSES = ((0.0, 0), (0.01, 0), (0.05, 4))
"""Shares of packets that a way loses, and for how many ms all are then lost."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--senders", type=count, nargs="+", default=[4], help="one, or several")
    parser.add_argument("--size", type=float, default=500, metavar="KB", help="of each sender")
    parser.add_argument("--rate", type=float, default=100, metavar="MBIT", help="of every link")
    parser.add_argument("--queue", type=count, default=64, metavar="KB", help="of every port")
    parser.add_argument("--rounds", type=count, default=100, help="of every contender")
    parser.add_argument("--rto-min", type=count, default=5, metavar="MS", help="TCP's own")


def incast(options: argparse.Namespace) -> Shown:
    settings = [replace(_setting(options), senders=n) for n in options.senders]
    return _shown(settings, MAIN, options.rounds)


def wire(options: argparse.Namespace) -> Shown:
    base = replace(_setting(options), senders=options.senders[0])
    settings = [replace(base, loss=loss, loss_burst_ms=burst) for loss, burst in LOSSES]
    return _shown(settings, (*MAIN, *ABLATIONS), options.rounds)


def _setting(options: argparse.Namespace) -> Setting:
    return Setting(
        size_bytes=int(options.size * 250) * 4,
        bits_per_s=options.rate * 1e6,
        queue_bytes=options.queue * 1000,
        rto_min_ms=options.rto_min,
    )


def _shown(settings: Sequence[Setting], contenders: Sequence[Contender], rounds: int) -> Shown:
    told = [(one, _rows(one, contenders, rounds)) for one in settings]
    data = [
        {"setting": asdict(one), "ideal_ms": one.ideal_ns / 1e6, "rows": [asdict(r) for r in rows]}
        for one, rows in told
    ]
    return Shown(data, lambda console: console.print("\n".join(_lines(told)), markup=False))


def _rows(setting: Setting, contenders: Sequence[Contender], rounds: int) -> list[Row]:
    return [summary(setting, timed) for timed in timed_rounds(setting, contenders, rounds)]


def _lines(told: Sequence[tuple[Setting, list[Row]]]) -> Iterator[Any]:
    for setting, rows in told:
        yield setting_line(setting)
        yield from table(rows)
        yield ""
