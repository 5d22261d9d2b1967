"""`lab incast` and `lab wire`. Not a command: its name begins with an underscore."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from paceline.cli import Shown
from paceline.cli._arguments import count
from paceline.lab.incast import IncastRow, Setting, summary
from paceline.lab.incast import incast as timed_rounds
from paceline.lab.overload import Load, overload
from paceline.lab.spraying import sprayed
from paceline.report.text.wire import load_line, setting_line, sprayed_line, table
from paceline.wire.contenders import ABLATIONS, GLOO, MAIN, Contender, at_hand

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
    base = _setting(options)
    told = _timed([replace(base, senders=n) for n in options.senders], MAIN, options.rounds)
    loaded = overload(Load(bits_per_s=base.bits_per_s, queue_bytes=base.queue_bytes))
    paths = sprayed(base, max(5, options.rounds // 10))
    data = {"incast": _data(told), "overload": asdict(loaded), "spraying": asdict(paths)}
    return _shown(data, [*_lines(told), load_line(loaded), sprayed_line(paths)])


def wire(options: argparse.Namespace) -> Shown:
    base = replace(_setting(options), senders=options.senders[0])
    settings = [replace(base, loss=loss, loss_burst_ms=burst) for loss, burst in LOSSES]
    told = _timed(settings, (*MAIN, *ABLATIONS), options.rounds)
    return _shown(_data(told), list(_lines(told)))


def _setting(options: argparse.Namespace) -> Setting:
    return Setting(
        size_bytes=int(options.size * 250) * 4,
        bits_per_s=options.rate * 1e6,
        queue_bytes=options.queue * 1000,
        rto_min_ms=options.rto_min,
    )


def _shown(data: Any, lines: Sequence[str]) -> Shown:
    return Shown(data, lambda console: console.print("\n".join(lines), markup=False))


Told = list[tuple[Setting, list[IncastRow]]]


def _timed(settings: Sequence[Setting], contenders: Sequence[Contender], rounds: int) -> Told:
    return [
        (one, [summary(one, timed) for timed in timed_rounds(one, at_hand(contenders), rounds)])
        for one in settings
    ]


def _data(told: Told) -> list[dict[str, Any]]:
    return [
        {"setting": asdict(one), "ideal_ms": one.ideal_ns / 1e6, "rows": [asdict(r) for r in rows]}
        for one, rows in told
    ]


def _lines(told: Told) -> Iterator[str]:
    for setting, rows in told:
        yield setting_line(setting)
        yield from table(rows)
        yield ""
    if not at_hand(GLOO):
        yield "gloo is not among them: it comes with torch, which is not installed here"
