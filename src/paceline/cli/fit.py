"""Fit the constants of kernel forecasts to tables of measurements.

A folder of tables holds matrix, vector, convolution, kernels, gemm, attention, moe or nccl as CSV,
with devices.json or devices.yaml (docs/how/forecasts.md). What is written is given to `predict`,
`imagine`, `search`, `verify` and `plan` as --constants FILE. Each kind of operators is said as soon
as it is fitted, the smallest first; a large one takes minutes. With --refine nothing is fitted: the
constants that come with Paceline are corrected on the devices in the tables, in a second.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli import Shown

if TYPE_CHECKING:
    from paceline.cost.forecast import Learned
    from paceline.cost.forecast.fitting import Sample

    Samples = Mapping[str, Sequence[Sample]]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tables", type=Path, nargs="+", metavar="TABLES", help="folders of tables")
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="FILE", help="constants")
    parser.add_argument("--source", default="", help="whose measurements they are")
    parser.add_argument("--refine", action="store_true",
                        help="keep the constants that come with Paceline, corrected on the devices "
                        "in TABLES")  # fmt: skip


def run(options: argparse.Namespace) -> Shown:
    from paceline.cost.forecast.tables import samples

    _require_place(options.out)
    measured = samples(*options.tables)
    return _refine(options, measured) if options.refine else _fit(options, measured)


def _refine(options: argparse.Namespace, measured: "Samples") -> Shown:
    from paceline.cost.forecast.refining import refine_shipped

    told = refine_shipped(measured, options.source, options.out)
    data = {"file": str(options.out), "refined": [asdict(row) for row in told]}

    def render(console: Any) -> None:
        from paceline.report.text.refined import refined_lines

        console.print("\n".join(refined_lines(told)), markup=False, soft_wrap=True)
        _render(data, console)

    return Shown(data, render)


def _fit(options: argparse.Namespace, measured: "Samples") -> Shown:
    from paceline.cost.forecast.learned import Constants, save

    said = sys.stderr if options.json else sys.stdout
    rows = sum(len(one) for taken in measured.values() for one in taken)
    print(f"fitting {len(measured)} kinds to {rows:,} rows", file=said, flush=True)
    learned = {}
    for key, one in _fitted(measured):
        learned[key] = one
        print(_line(key, one), file=said, flush=True)
    today = datetime.now(timezone.utc).date().isoformat()
    save(Constants(learned, options.source, today), options.out)
    data = {"file": str(options.out), "kinds": [_row(*each) for each in sorted(learned.items())]}
    return Shown(data, lambda console: _render(data, console))


def _fitted(measured: "Samples") -> "Iterator[tuple[str, Learned]]":
    """One kind after another, those with the fewest rows first."""
    from paceline.cost.forecast.efforts import effort_of
    from paceline.cost.forecast.fitting import fitted

    rows = {key: sum(map(len, taken)) for key, taken in measured.items()}
    for key in sorted(rows, key=lambda each: (rows[each], each)):
        yield key, fitted(measured[key], effort_of(key))


def _require_place(path: Path) -> None:
    """Before minutes are spent on what cannot be kept."""
    from paceline.errors import FileError

    if path.is_dir() or not path.absolute().parent.is_dir():
        raise FileError(f"{path} cannot be written; give a file in a folder that is there")


def _line(key: str, one: "Learned") -> str:
    return (
        f"{key:26} {one.rows:7,} rows of {len(one.devices)} devices; off by {one.known_spread:.1%} "
        f"on shapes held back, {_left_out(one)}"
    )


def _left_out(one: "Learned") -> str:
    if len(one.devices) < 2:
        return "no other device to leave out"
    return f"{one.spread:.0%} on devices left out"


def _row(key: str, one: "Learned") -> dict[str, Any]:
    return {
        "key": key,
        "rows": one.rows,
        "devices": list(one.devices),
        "device_out": round(one.spread, 4),
        "held_out": round(one.known_spread, 4),
    }


def _render(data: dict[str, Any], console: Any) -> None:
    console.print(
        f"written to {data['file']}; forecast by it with --constants {data['file']}",
        markup=False,
        soft_wrap=True,
    )
