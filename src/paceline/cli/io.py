"""Generate data sets, run real loaders on them, and predict how well an accelerator is fed.

paceline io generate unet3d --scale 0.05 -o data    # or a description of your own (YAML)
paceline io generate resnet50 --scale disk -o data  # as much of it as half of the disk holds
paceline io run data --workers 0 -o runs/in         # utilisation as MLPerf Storage defines it
paceline io predict runs/in --workers 1 2 3 4       # of other settings, from that one run
paceline io predict runs/in --with 'format(name="raw")' --with cache
"""

import argparse
import importlib.util
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli import Shown
from paceline.cli._arguments import count

if TYPE_CHECKING:
    from paceline.feed import FeedRun, Loading
    from paceline.feed.reader import OwnReader

RUN = "feed.json"
DISK = "disk"  # a scale


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    made = actions.add_parser("generate", help="write a data set to a description")
    made.add_argument("description", help="unet3d, resnet50, cosmoflow, or a YAML file")
    made.add_argument("--scale", type=scale, default=1.0, metavar="N",
                      help="so many times the samples, or disk: what half of it holds")  # fmt: skip
    made.add_argument("--format", help="another format than the description's")
    made.add_argument("-o", "--out", type=Path, required=True, metavar="FOLDER")
    made.set_defaults(action=_generate)
    run = actions.add_parser("run", help="run a training loop on a data set")
    _configure_run(run)
    run.set_defaults(action=_run)
    ask = actions.add_parser("predict", help="predict other settings from a run without workers")
    ask.add_argument("run", type=Path, metavar="RUN")
    ask.add_argument("--workers", type=count, nargs="+", default=[], metavar="N")
    ask.add_argument("--with", action="append", default=[], dest="strategies", metavar="STRATEGY",
                     help="such as 'prefetch(batches=4)'; all of them together")  # fmt: skip
    ask.add_argument("--cores", type=float, default=0.0, help="of the host (as recorded)")
    ask.set_defaults(action=_predict)
    for action in (made, run, ask):
        action.add_argument("--json", action="store_true", help="print one JSON object")


def _configure_run(run: argparse.ArgumentParser) -> None:
    run.add_argument("data", type=Path, metavar="DATA")
    run.add_argument("--workers", type=int, nargs="+", default=[0], metavar="N",
                     help="of the loader; several are run one after the other")  # fmt: skip
    run.add_argument("--prefetch", type=count, default=2, help="batches that each is ahead (2)")
    run.add_argument("--pinned", action="store_true", help="batches in pinned memory")
    run.add_argument("--uncached", nargs="?", const="files", choices=["files", "machine"],
                     help="drop the files from the cache first; machine: all of it")  # fmt: skip
    run.add_argument("--compute", choices=["sleep", "real"], default="sleep",
                     help="what stands for the accelerator")  # fmt: skip
    run.add_argument("--compute-time", metavar="TIME", help="of a batch, such as 20ms")
    run.add_argument("--batch", type=count, help="samples of a batch")
    run.add_argument("--steps", type=count, default=0, help="at most (all)")
    run.add_argument("--reader", metavar="FILE.py:FUNCTION",
                     help="read samples with function(path, place) -> array")  # fmt: skip
    run.add_argument("--formats", nargs="+", default=[], metavar="FORMAT",
                     help="also measure its samples in these, or all")  # fmt: skip
    run.add_argument("-o", "--out", type=Path, metavar="RUN",
                     help="keep the run; without workers also as a graph")  # fmt: skip


def scale(text: str) -> float | str:
    return text if text == DISK else float(text)


def run(options: argparse.Namespace) -> Shown:
    action: Callable[[argparse.Namespace], Shown] = options.action
    return action(options)


def _generate(options: argparse.Namespace) -> Shown:
    from paceline.feed import fitted, generate, load, scaled
    from paceline.report import working

    wanted = load(options.description)
    if options.format:
        wanted = replace(wanted, format=options.format)
    if options.scale == DISK:
        wanted = fitted(wanted, options.out)
    else:
        wanted = scaled(wanted, options.scale)
    with working(f"writing {options.out}"):
        made = generate(wanted, options.out)
    given = made.description
    size = sum(path.stat().st_size for path in made.files)
    data = {"folder": str(options.out), "samples": given.samples, "files": given.files,
            "format": given.format, "size_bytes": size}  # fmt: skip
    said = f"{given.samples} samples in {given.files} {given.format} files, {size / 1e6:,.1f} MB"
    return Shown(data, lambda console: console.print(f"{options.out}: {said}", markup=False))


def _run(options: argparse.Namespace) -> Shown:
    from paceline.feed import utilisation
    from paceline.report import working

    with working(f"training on {options.data}"):
        runs = [_one_run(options, workers) for workers in options.workers]
    found = [(each, utilisation(each)) for each in runs]
    rows = [
        {"workers": r.loading.workers, **asdict(u), "damaged": dict(r.damaged)} for r, u in found
    ]

    def render(console: Any) -> None:
        from paceline.report.text.feed import feed_lines, feed_table

        for each, share in found:
            console.print("\n".join(feed_lines(each, share)), markup=False, soft_wrap=True)
        console.print(feed_table(found))

    return Shown({"runs": rows}, render)


def _one_run(options: argparse.Namespace, workers: int) -> "FeedRun":
    from paceline.feed import open_data
    from paceline.feed.run import save
    from paceline.feed.torch_probe import known_formats, probed
    from paceline.feed.torch_run import run as train

    data = _with_options(open_data(options.data), options)
    found = train(data, _loading(options, workers), _own(options.reader))
    if workers == 0:
        found = probed(found, data, known_formats(options.formats))
    if options.out:
        folder = options.out if len(options.workers) == 1 else options.out / str(workers)
        folder.mkdir(parents=True, exist_ok=True)
        save(found, folder / RUN)
        _save_graph(found, folder)
    return found


def _save_graph(found: "FeedRun", folder: Path) -> None:
    from paceline.feed.drawn import graph_of
    from paceline.graph import save_graph
    from paceline.graph.files import KEPT

    if found.loading.workers == 0:
        save_graph(graph_of(found), folder / KEPT)


def _with_options(data: Any, options: argparse.Namespace) -> Any:
    from paceline.cluster.quantities import duration

    changed: dict[str, Any] = {}
    if options.batch:
        changed["batch"] = options.batch
    if options.compute_time:
        changed["compute_ns"] = duration(options.compute_time, "--compute-time")
    return replace(data, description=replace(data.description, **changed))


def _loading(options: argparse.Namespace, workers: int) -> "Loading":
    from paceline.feed import Computing, Loading

    return Loading(
        workers=workers,
        prefetch=options.prefetch,
        pinned=options.pinned,
        cached=options.uncached is None,
        drop_all=options.uncached == "machine",
        computing=Computing(options.compute),
        steps=options.steps,
    )


def _own(text: str | None) -> "OwnReader | None":
    """The function that a file defines."""
    from paceline.feed import FeedError

    if text is None:
        return None
    name, _, function = text.partition(":")
    spec = importlib.util.spec_from_file_location(Path(name).stem, name)
    if not function or spec is None or spec.loader is None or not Path(name).is_file():
        raise FeedError(f"--reader is {text!r}; give a Python file and a function: read.py:sample")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: OwnReader | None = getattr(module, function, None)
    if found is None:
        raise FeedError(f"{name} defines no {function}")
    return found


def _predict(options: argparse.Namespace) -> Shown:
    from paceline.predict.input import fed
    from paceline.strategies import parse, strategy
    from paceline.trace.runs import open_run

    graph = open_run(options.run)
    beside = [parse(text) for text in options.strategies]
    plans = [[*beside, strategy("data_workers", count=n)] for n in options.workers] or [beside]
    rows = [fed(graph, plan, options.cores) for plan in ([], *plans) if plan or not beside]

    def render(console: Any) -> None:
        from paceline.report.text.feed import fed_table

        console.print(fed_table(rows))

    return Shown({"predicted": [asdict(row) for row in rows]}, render)
