"""How long a convolutional network's forward pass takes here, and how well it uses the machine.

paceline latency --learn here.json                       # measures twenty networks, in minutes
paceline latency model.py:build --by here.json           # predicted; --measure measures it too
paceline latency --zoo --by here.json                    # torchvision's architectures
paceline latency --within 20ms --by here.json --cells 300 # the best network of a cell space

`build()` returns a torch module. Utilisation is achieved operations per second over the measured
peak of large products: FLOPs alone do not tell how fast a network is.
"""

import argparse
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli import Shown
from paceline.cli._arguments import count
from paceline.errors import PacelineError

if TYPE_CHECKING:
    from paceline.cost.network import LatencyModel
    from paceline.report.text.latency import LatencyRow

NETWORKS = 20
SEED = 1


class LatencyError(PacelineError):
    """Options or files that do not tell what to look at."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="*", metavar="FILE.py:BUILD", help="functions of modules")
    parser.add_argument("--zoo", nargs="*", metavar="NAME",
                        help="torchvision's architectures, or those that are named")  # fmt: skip
    parser.add_argument("--input", default="1x3x224x224", metavar="SHAPE", help="(1x3x224x224)")
    parser.add_argument("--by", type=Path, metavar="FILE", help="what was learned of this machine")
    parser.add_argument("--learn", type=Path, metavar="FILE",
                        help="measure networks of all families; keep what they teach")  # fmt: skip
    parser.add_argument("--networks", type=count, default=NETWORKS, help="to learn from (20)")
    parser.add_argument("--measure", action="store_true", help="measure each, too")
    parser.add_argument("--threads", type=count, metavar="N",
                        help="of torch, where it measures (as torch chooses); learn and predict "
                        "with as many")  # fmt: skip
    parser.add_argument("--within", metavar="TIME", help="search a cell space, such as 20ms")
    parser.add_argument("--cells", type=count, default=200, help="networks of that space (200)")
    parser.add_argument("--measurements", type=count, default=8, help="of the search (8)")


def run(options: argparse.Namespace) -> Shown:
    if options.threads:
        import torch

        torch.set_num_threads(options.threads)
    if options.learn:
        return _learn(options)
    model = _known(options)
    if options.within:
        return _search(options, model)
    rows = [*_rows(options, model)]
    if not rows:
        raise LatencyError("nothing to look at: give FILE.py:BUILD, --zoo, --within or --learn")

    def render(console: Any) -> None:
        from paceline.report.text.latency import latency_table, learned_line

        console.print(latency_table(rows))
        console.print(learned_line(model), markup=False)

    return Shown({"networks": [row.data() for row in rows]}, render)


def _learn(options: argparse.Namespace) -> Shown:
    from paceline.cost.network import fit, save
    from paceline.imagine.network_space import drawn
    from paceline.imagine.torch_zoo import built
    from paceline.measure.torch_network import measured, peak_flops_per_s
    from paceline.report import tracked

    wanted = drawn(options.networks, SEED)
    found = [measured(str(each), built(each), each.shape) for each in tracked(wanted, "measuring")]
    model = fit(found, peak_flops_per_s())
    save(model, options.learn)
    data = {"networks": len(found), "error": model.error,
            "peak_flops_per_s": model.peak_flops_per_s}  # fmt: skip
    said = (
        f"{len(found)} networks measured; each predicted from the others is off by "
        f"{model.error:.1%} in the mean. Peak {model.peak_flops_per_s / 1e9:,.1f} GFLOP/s."
    )
    return Shown(data, lambda console: console.print(said, markup=False))


def _known(options: argparse.Namespace) -> "LatencyModel":
    from paceline.cost.network import load

    if options.by is None:
        raise LatencyError(
            "what this machine does is not known: give --by FILE, which "
            "`paceline latency --learn FILE` makes"
        )
    return load(options.by)


def _rows(options: argparse.Namespace, model: "LatencyModel") -> "Iterator[LatencyRow]":
    from paceline.imagine.torch_zoo import filled, zoo, zoo_model

    shape = _shape(options.input)
    for text in options.models:
        yield _row(text, _built(text), shape, model, measure=options.measure)
    if options.zoo is not None:
        for name in options.zoo or zoo():
            made = zoo_model(name)
            made = filled(made) if options.measure else made
            yield _row(name, made, shape, model, measure=options.measure)


def _row(
    name: str, network: Any, shape: tuple[int, ...], model: "LatencyModel", *, measure: bool
) -> "LatencyRow":
    from paceline.cost.network import network_flops
    from paceline.imagine.torch_network import calls_of
    from paceline.measure.torch_network import measured
    from paceline.report.text.latency import LatencyRow

    calls = calls_of(network, shape)
    took = measured(name, network.eval(), shape).latency_ns if measure else 0
    return LatencyRow(
        name, network_flops(calls), model.latency_ns(calls), took, model.peak_flops_per_s
    )


def _search(options: argparse.Namespace, model: "LatencyModel") -> Shown:
    from paceline.cluster.quantities import duration
    from paceline.cost.network import network_flops
    from paceline.imagine.network_space import ImageNetwork, drawn_cells
    from paceline.imagine.torch_network import calls_of
    from paceline.imagine.torch_zoo import built, imagined
    from paceline.measure.torch_network import measured
    from paceline.search.networks import Guessed, within_latency

    def guessed(network: ImageNetwork) -> "Guessed[ImageNetwork]":
        calls = calls_of(imagined(network), network.shape)
        return Guessed(network, network_flops(calls), model.latency_ns(calls))

    limit = duration(options.within, "--within")
    space = [guessed(each) for each in drawn_cells(options.cells, SEED)]
    found = within_latency(
        space,
        lambda each: measured(str(each), built(each), each.shape).latency_ns,
        limit,
        options.measurements,
    )
    if found.best is None:
        raise LatencyError(
            f"none of {found.measured} networks that were measured keeps {options.within}; give a "
            "longer --within, or more --measurements"
        )
    data = {"network": str(found.best.candidate), "flops": found.best.flops,
            "latency_ns": found.latency_ns, "measured": found.measured}  # fmt: skip
    said = (
        f"{found.best.candidate}: {found.best.flops / 1e6:,.0f} MFLOP in "
        f"{found.latency_ns / 1e6:,.2f} ms, the most of {found.measured} measured of {len(space)}"
    )
    return Shown(data, lambda console: console.print(said, markup=False))


def _shape(text: str) -> tuple[int, ...]:
    parts = text.lower().split("x")
    if not all(part.isdigit() and int(part) > 0 for part in parts):
        raise LatencyError(f"--input is {text!r}; give sizes as in 1x3x224x224")
    return tuple(map(int, parts))


def _built(text: str) -> Any:
    """What the function of a file returns."""
    name, _, function = text.partition(":")
    path = Path(name)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not function or spec is None or spec.loader is None or not path.is_file():
        raise LatencyError(
            f"{text!r} names no function; give a Python file and one: model.py:build"
        )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    build = getattr(module, function, None)
    if build is None:
        raise LatencyError(f"{name} defines no {function}")
    return build()
