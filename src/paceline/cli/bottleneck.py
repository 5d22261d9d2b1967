"""Is the network the bottleneck of a job? Its scaling factor now, and on links of other rates.

The scaling factor is a step without communication over the step with it. The network is taken as
fully used: what a recording lacks to the factor at its own links' rate is the library's and the
machine's doing, and no faster network will bring it. Also said: from which rate on the network
stops mattering, and at each rate the compression that would do as well.
"""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli import Shown
from paceline.cli._arguments import add_graph

if TYPE_CHECKING:
    from paceline.cost import Curve
    from paceline.predict.bottleneck import Bottleneck


def configure(parser: argparse.ArgumentParser) -> None:
    add_graph(parser, "run")
    parser.add_argument("--rate", action="append", default=[], metavar="RATE",
                        help="such as 25Gbps; may be repeated (1 to 400 Gbit/s)")  # fmt: skip
    parser.add_argument("--additions", type=Path, metavar="FILE",
                        help="lines of bytes,seconds that adding two vectors takes")  # fmt: skip


def run(options: argparse.Namespace) -> Shown:
    from paceline.cluster.quantities import rate
    from paceline.predict.bottleneck import RATES, bottleneck
    from paceline.trace.runs import open_run

    rates = tuple(round(8 * rate(text)) for text in options.rate) or RATES
    additions = _additions(options.additions) if options.additions else None
    found = bottleneck(open_run(Path(options.run)), rates, additions)
    return Shown(asdict(found), lambda console: _render(found, console))


def _additions(path: Path) -> "Curve":
    from paceline.cost import Curve
    from paceline.errors import FileError

    try:
        rows = [tuple(map(float, line.split(","))) for line in path.read_text().split()]
        sizes, seconds = zip(*rows, strict=True)
    except (OSError, ValueError) as error:
        raise FileError(
            f"{path} does not say what additions take: {error}. Write a line a size, as in "
            "`1048576,0.00021` for bytes and seconds."
        ) from error
    return Curve.through(sizes, [each * 1e9 for each in seconds])


def _render(found: "Bottleneck", console: Any) -> None:
    from paceline.report.text.bottleneck import bottleneck_lines, bottleneck_table

    console.print("\n".join(bottleneck_lines(found)), markup=False)
    console.print(bottleneck_table(found))
