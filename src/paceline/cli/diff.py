"""Say why run B is slower than run A: what changed most, in words, tested against noise.

Steps are aligned by phase, layer and operator. The difference is given to causes that sum to it:
a layer on one rank, a slower link, other buckets, input, replaced operators, another batch, busy
cores. Exit code 3 where B is slower by more than --fail-above, beyond noise.
"""

import argparse
from typing import Any

from paceline.cli import Shown
from paceline.cli._arguments import add_graph, count

TOO_SLOW = 3


def configure(parser: argparse.ArgumentParser) -> None:
    add_graph(parser, "a")
    add_graph(parser, "b")
    parser.add_argument(
        "--top", type=count, default=8, metavar="N", help="rows per table (default 8)"
    )
    parser.add_argument("--markdown", action="store_true", help="as Markdown, for a pull request")
    parser.add_argument(
        "--fail-above", type=_share, metavar="SHARE",
        help=f"exit code {TOO_SLOW} where B is slower by more, as in 3%%, beyond noise",
    )  # fmt: skip


def run(options: argparse.Namespace) -> Shown:
    from paceline.compare import diff, side_of
    from paceline.report import working
    from paceline.report.difference import as_data
    from paceline.report.markdown import difference_markdown
    from paceline.report.text.difference import show_difference

    with working(f"comparing {options.a} and {options.b}"):
        found = diff(side_of(options.a), side_of(options.b))
    failed = options.fail_above is not None and found.fails_above(options.fail_above)

    def render(console: Any) -> None:
        if options.markdown:
            console.print(difference_markdown(found), markup=False, soft_wrap=True)
        else:
            show_difference(found, console, options.top)

    data = {**as_data(found), "fail_above": options.fail_above, "failed": failed}
    return Shown(data, render, TOO_SLOW if failed else 0)


def _share(text: str) -> float:
    """`3%` or `0.03`."""
    try:
        value = float(text.rstrip("% ")) / (100 if text.rstrip().endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 100:
        raise argparse.ArgumentTypeError(f"{text!r} is no share of a step, such as 3% or 0.03")
    return value
