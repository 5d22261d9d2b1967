"""Write a page that shows a run: one HTML file that opens from disk and answers "what if?".

paceline report runs/a -o report.html
paceline report runs/a runs/b --cluster cluster.yaml --carry 'workers=4,8;bf16' -o report.html

The page holds the timeline of all ranks, the critical path, memory, collectives, and the engine, so
that its sliders predict without a server. A second run is shown below the first one, with why it
is slower. With --cluster the links' rate and latency can be slid too, with --cores workers share a
machine's cores as in the lab, and with --calibration it rests on what was measured; with --plan a
plan stands beside what it brings.
"""

import argparse
from pathlib import Path
from typing import Any

from paceline.cli import Shown
from paceline.cli._arguments import add_graph
from paceline.cli._question import add_place, placed


def configure(parser: argparse.ArgumentParser) -> None:
    add_graph(parser, "run")
    parser.add_argument("other", metavar="RUN2", nargs="?", help="a second run, to set beside it")
    parser.add_argument("--plan", type=Path, metavar="FILE", help="a plan, and what it brings")
    add_place(parser)
    parser.add_argument("--carry", action="append", default=[], metavar="STRATEGIES",
                        help="strategies that the page can switch on, as in 'bf16;buckets', "
                        "workers=2,4,8, or together as in 'workers=4+bf16'; may be repeated; a "
                        "bare name that needs settings stands for some worth trying, "
                        "'' for none (default: sensible ones)")  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, default=Path("report.html"), metavar="FILE",
                        help="the page to write (default report.html)")  # fmt: skip


def run(options: argparse.Namespace) -> Shown:
    from paceline.compare import diff, side_of
    from paceline.report import working
    from paceline.report.page import PageRequest, carried_by_default, gather, named, write_page
    from paceline.report.page.write import template
    from paceline.strategies import load_plan
    from paceline.trace.runs import open_run

    template()  # says what is missing before anything is computed
    with working(f"writing {options.output}"):
        graph = open_run(options.run)
        place = placed(options, options.run)
        difference = diff(side_of(options.run), side_of(options.other)) if options.other else None
        default = carried_by_default(graph, place.cluster)
        asked = PageRequest(
            name=Path(options.run).resolve().name,
            graph=graph,
            other=open_run(options.other) if options.other else None,
            other_name=Path(options.other).resolve().name if options.other else "",
            plan=load_plan(options.plan) if options.plan else None,
            cluster=place.cluster,
            question=place.question,
            strategies=named(options.carry, graph) if options.carry else default,
            folder=Path(options.run),
            difference=difference,
        )
        contents = gather(asked)
        path = write_page(contents, options.output)
    data = {
        "page": str(path),
        "size_bytes": path.stat().st_size,
        "carries": [scenario.name for scenario in contents.scenarios],
        "cannot": {choice.name: choice.why_not for choice in contents.cannot},
        "missing": dict(contents.missing),
    }
    return Shown(data, lambda console: _render(data, console))


def _render(data: dict[str, Any], console: Any) -> None:
    from paceline.report.text.quantities import size

    line = f"{data['page']} ({size(data['size_bytes'])}) carries {', '.join(data['carries'])}"
    console.print(line, markup=False, soft_wrap=True)
    for name, why in data["cannot"].items():
        console.print(f"not {name}: {why}", markup=False, soft_wrap=True)
