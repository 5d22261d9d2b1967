"""Search for the accelerator design that trains transformers fastest, with the plan of each model.

MODEL is bert-large, gpt2-54, NAME:LAYERS,HIDDEN,HEADS,SEQUENCE,VOCABULARY, or a model that
`paceline plan` knows or that a YAML file describes. Several models share one design. Throughput is
predicted by the cost model of docs/place.md, beside known designs at the same area; nothing is
measured. Exit code 1 where no design fits.
"""

import argparse
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from paceline.cli import Shown
from paceline.cli._arguments import count, positive
from paceline.errors import PacelineError

if TYPE_CHECKING:
    from paceline.place.hardware import (
        AcceleratorFleet,
        Chained,
        DesignBaseline,
        SearchResult,
        SearchSettings,
    )

GIB = 2**30


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="+", metavar="MODEL", help="see above")
    fleet = parser.add_argument_group("accelerators")
    fleet.add_argument("--devices", type=count, default=1024, metavar="N",
                       help="how many there are (1024)")  # fmt: skip
    fleet.add_argument("--link", type=positive, default=4.0, metavar="GIB",
                       help="link rate in GiB/s (4)")  # fmt: skip
    fleet.add_argument("--hbm", type=count, default=32, metavar="GIB",
                       help="memory of each one (32)")  # fmt: skip
    fleet.add_argument("--global-batch", type=count, default=4096, metavar="N",
                       help="samples per step of all devices (4096)")  # fmt: skip
    fleet.add_argument("--no-recompute", action="store_true", help="keep all activations")
    limits = parser.add_argument_group("limits")
    limits.add_argument("--area", type=positive, metavar="MM2",
                        help="largest area of a design (TPUv4's)")  # fmt: skip
    limits.add_argument("--time-limit", type=positive, default=120.0, metavar="S",
                        help="seconds to walk over designs (120)")  # fmt: skip
    limits.add_argument("--patience", type=count, default=5, metavar="N",
                        help="stop after N areas without improvement (5)")  # fmt: skip
    limits.add_argument("--finalists", type=count, default=100, metavar="N",
                        help="designs whose layers CP-SAT schedules (100)")  # fmt: skip
    parser.add_argument("--compare", action="store_true",
                        help="also show known designs, planned and fixed")  # fmt: skip


def run(options: argparse.Namespace) -> Shown:
    from paceline.place.hardware import DESIGNS, baselines, search
    from paceline.report.progress import working

    models = tuple(_model(text) for text in options.models)
    fleet, settings = _fleet(options), _settings(options)
    with working("searching designs") as say:
        watched = replace(settings, watch=lambda at: say(str(at)))
        found = search(models, fleet, watched, DESIGNS.values())
        others = [baselines(model, fleet, settings) for model in models] if options.compare else []
    data = _data(models, fleet, found, others)
    return Shown(data, lambda console: _render(data, console), 0 if data["samples_per_s"] else 1)


def _model(text: str) -> "Chained":
    from paceline.imagine.decoder import decoder, shipped
    from paceline.place.hardware import MODELS, DecoderModel, UniformModel

    if text in MODELS:
        return MODELS[text]
    if text in shipped() or text.endswith((".yaml", ".yml")):
        return DecoderModel(decoder(text))
    name, _, numbers = text.partition(":")
    parts = numbers.split(",")
    if len(parts) != 5 or not all(part.isdecimal() and int(part) for part in parts):
        raise PacelineError(
            f"{text!r} is no model: give one of {', '.join(MODELS)}, one that `paceline plan` "
            "knows, or NAME:LAYERS,HIDDEN,HEADS,SEQUENCE,VOCABULARY, such as "
            "small:12,768,12,512,30522"
        )
    layers, hidden, heads, sequence, vocabulary = map(int, parts)
    return UniformModel(name, layers, hidden, heads, sequence, vocabulary)


def _fleet(options: argparse.Namespace) -> "AcceleratorFleet":
    from paceline.place.hardware import AcceleratorFleet

    return AcceleratorFleet(
        devices=options.devices,
        link_bytes_per_s=options.link * GIB,
        global_batch=options.global_batch,
        recompute=not options.no_recompute,
    )


def _settings(options: argparse.Namespace) -> "SearchSettings":
    from paceline.place.hardware import AREA_LIMIT_UM2, SearchSettings

    area = AREA_LIMIT_UM2 if options.area is None else 1e6 * options.area
    return SearchSettings(
        area_limit_um2=area,
        hbm_gib=options.hbm,
        bucket_um2=area / 200,
        patience=options.patience,
        seconds=options.time_limit,
        finalists=options.finalists,
    )


def _data(
    models: "tuple[Chained, ...]",
    fleet: "AcceleratorFleet",
    found: "SearchResult",
    others: "list[list[DesignBaseline]]",
) -> dict[str, Any]:
    best = found.best
    rows = [
        {
            "model": model.name,
            "samples_per_s": plan.samples_per_s(fleet),
            **asdict(plan),
            "baselines": {b.name: b.plan.samples_per_s(fleet) for b in known},
        }
        for model, plan, known in zip(models, best.plans, others or [[] for _ in models])
    ]
    return {
        "design": asdict(best.template),
        "described": str(best.template),
        "area_mm2": best.template.area_um2 / 1e6,
        "peak_flops": best.template.peak_flops,
        "samples_per_s": best.score(fleet),
        "models": rows if best.score(fleet) else [],
        "considered": found.considered,
        "planned": found.planned,
        "refined": found.refined,
        "buckets": found.buckets,
        "stopped": found.stopped,
        "seconds": found.seconds,
    }


def _render(data: dict[str, Any], console: Any) -> None:
    from paceline.report.text.hardware import hardware_tables

    if not data["samples_per_s"]:
        console.print("no design fits all models; allow more --devices, --hbm or --area")
    for part in hardware_tables(data):
        console.print(part)
