"""Fit the constants of kernel forecasts to tables of measurements.

A folder of tables holds matrix, vector, convolution, kernels, gemm, attention, moe or nccl as CSV,
with devices.json or devices.yaml (docs/how/forecasts.md). What is written is passed to
`paceline.cost.forecast.forecast` in place of the shipped constants.
"""

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from paceline.cli import Shown


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tables", type=Path, nargs="+", metavar="TABLES", help="folders of tables")
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="FILE", help="constants")
    parser.add_argument("--source", default="", help="whose measurements they are")


def run(options: argparse.Namespace) -> Shown:
    from paceline.cost.forecast.efforts import effort_of
    from paceline.cost.forecast.fitting import fitted
    from paceline.cost.forecast.learned import Constants, save
    from paceline.cost.forecast.tables import samples

    learned = {}
    for folder in options.tables:
        for key, measured in samples(folder).items():
            learned[key] = fitted(measured, effort_of(key))
    today = datetime.now(UTC).date().isoformat()
    save(Constants(learned, options.source, today), options.out)
    rows = [
        {
            "key": key,
            "rows": one.rows,
            "devices": list(one.devices),
            "device_out": round(one.spread, 4),
            "held_out": round(one.known_spread, 4),
        }
        for key, one in sorted(learned.items())
    ]
    data = {"file": str(options.out), "kinds": rows}
    return Shown(data, lambda console: _render(data, console))


def _render(data: dict[str, Any], console: Any) -> None:
    for row in data["kinds"]:
        console.print(
            f"{row['key']:32} {row['rows']:7,} rows of {len(row['devices'])} devices; off by "
            f"{row['held_out']:.1%} on shapes held back, "
            f"{row['device_out']:.0%} on devices left out"
        )
    console.print(f"written to {data['file']}", markup=False)
