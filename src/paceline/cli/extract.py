"""Write one operator of a run as a script of its own, with its shapes, strides and types.

The call that takes most time is taken. The script needs torch alone, and times the call.
"""

import argparse
from pathlib import Path
from typing import Any

from paceline.cli import Shown


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", type=Path, help="recorded or imported with shapes")
    parser.add_argument("operator", metavar="OP", help="such as aten::addmm")
    parser.add_argument("-o", "--out", type=Path, required=True, help="the script to write")


def run(options: argparse.Namespace) -> Shown:
    from paceline.analyse.extract import chosen, script_of
    from paceline.analyse.shapes import shapes_of
    from paceline.trace.files import detail_files
    from paceline.trace.readers.called import called

    calls = [call for source in detail_files(options.run) for call in called(source)]
    shaped = chosen(shapes_of(calls), options.operator)
    options.out.write_text(script_of(shaped, options.run.name, _threads(options.run)))
    data = {
        "script": str(options.out),
        "operator": shaped.call.name,
        "dims": list(shaped.call.dims),
        "strides": list(shaped.call.strides),
        "types": list(shaped.call.types),
        "count": shaped.count,
        "mean_us": shaped.total_us / shaped.count,
    }

    def render(console: Any) -> None:
        called_as = f"{data['operator']} {data['dims']}, called {data['count']} times"
        console.print(f"{called_as} -> {data['script']}", markup=False, soft_wrap=True)
        console.print(f"next: python {data['script']}", markup=False)

    return Shown(data, render)


def _threads(run: Path) -> int:
    """Of torch in the recorded job; 0 where the run does not tell."""
    from paceline.record import sidecar

    recorded = [sidecar.read(path) for path in sorted(run.glob("rank-*.facts.jsonl"))[:1]]
    return next((host.threads for one in recorded for host in one.of(sidecar.RecordedHost)), 0)
