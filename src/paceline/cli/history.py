"""What was recorded, predicted and measured: paceline history --strategy bf16 --since 7d

paceline history                            the newest entries
paceline history compare --job train.py     predicted against measured, over time and by strategy
paceline history --parquet history.parquet  all that the filters leave, as a table
paceline history forget --job train.py      remove these for good

The history is one file: that of PACELINE_HISTORY, else of the project (where a folder .paceline
stands), else the user's. PACELINE_HISTORY=off switches it off. See docs/how/history.md.
"""

import argparse
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli import Shown
from paceline.cli._arguments import count
from paceline.errors import PacelineError

if TYPE_CHECKING:
    from paceline.history import History, Wanted

_WIDTH = 150  # of a table whose lines hold names; a terminal wraps them
ACTIONS = ("list", "compare", "forget")
KINDS = ("recording", "prediction", "trial", "verdict")


class HistoryOptionError(PacelineError):
    """Options that do not go together."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=ACTIONS, default="list")
    which = parser.add_argument_group("which entries")
    which.add_argument("--job", default="", metavar="TEXT",
                       help="a part of its command, or the beginning of its model's "
                       "digest")  # fmt: skip
    which.add_argument("--strategy", default="", metavar="NAME",
                       help="under this strategy; 'none': without any")  # fmt: skip
    which.add_argument("--kind", action="append", default=[], choices=KINDS)
    which.add_argument("--since", type=_moment, metavar="DATE", help="such as 2026-11-20, or 7d")
    which.add_argument("--until", type=_moment, metavar="DATE", help="before that moment")
    which.add_argument("--key", action="append", default=[], metavar="KEY",
                       help="this one; the beginning of its key is enough")  # fmt: skip
    parser.add_argument("--last", type=count, default=30, metavar="N", help="lines shown (30)")
    parser.add_argument("--parquet", type=Path, metavar="FILE", help="write them all as a table")
    parser.add_argument("--all", action="store_true", help="forget everything")


def run(options: argparse.Namespace) -> Shown:
    from paceline.history import opened

    history = opened()
    if history is None:
        raise HistoryOptionError(
            "no history is kept: it is switched off (PACELINE_HISTORY=off), or you have no home "
            "folder. Give a file with PACELINE_HISTORY"
        )
    if options.action == "forget":
        return _forget(options, history, _wanted(options))
    return _list(options, history, _wanted(options))


def _list(options: argparse.Namespace, history: "History", wanted: "Wanted") -> Shown:
    from dataclasses import asdict

    from paceline.history import by_strategy
    from paceline.history.parquet import export, row_of
    from paceline.report.text.history import entries_table, errors_table

    found = history.entries(wanted)
    if options.parquet:
        export(found, options.parquet)
    compare = options.action == "compare"
    shown = [entry for entry in found if entry.error is not None] if compare else found
    errors = by_strategy(found)
    data = {
        "history": str(history.path),
        "entries": [row_of(entry) for entry in shown],
        "by_strategy": [asdict(each) for each in errors],
    }

    def render(console: Any) -> None:
        told = f"{history.path}: {_counted(len(shown))}"
        console.print(told, markup=False, soft_wrap=True)
        if shown:
            console.width = max(console.width, _WIDTH)
            console.print(entries_table(shown[-options.last :]))
        if compare and errors:
            console.print()
            console.print(errors_table(errors))

    return Shown(data, render)


def _forget(options: argparse.Namespace, history: "History", wanted: "Wanted") -> Shown:
    if wanted.everything and not options.all:
        raise HistoryOptionError(
            "say what to forget: --job, --strategy, --kind, --since, --until, --key, or --all"
        )
    removed = history.forget(wanted)
    data = {"history": str(history.path), "forgotten": removed}
    told = f"{_counted(removed)} forgotten"
    return Shown(data, lambda console: console.print(told, markup=False))


def _counted(entries: int) -> str:
    return "1 entry" if entries == 1 else f"{entries} entries"


def _wanted(options: argparse.Namespace) -> "Wanted":
    from paceline.history import Kind, Wanted

    return Wanted(
        kinds=tuple(map(Kind, options.kind)),
        job=options.job,
        strategy=options.strategy,
        since_ns=options.since,
        until_ns=options.until,
        keys=tuple(options.key),
    )


def _moment(text: str) -> int:
    """Unix time in ns of a date, a moment (ISO 8601), or so many days ago; local time."""
    if days := re.fullmatch(r"(\d+)d", text):
        moment = datetime.now().astimezone() - timedelta(days=int(days[1]))
    else:
        try:
            moment = datetime.fromisoformat(text).astimezone()
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"{text!r} is no date; give one such as 2026-11-20, 2026-11-20T09:30 or 7d"
            ) from None
    return round(moment.timestamp() * 1e9)
