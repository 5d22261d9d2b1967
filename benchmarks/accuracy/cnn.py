"""Latency of 200 unseen convolutional networks, from 20 that were measured.

Networks are drawn from torchvision's architectures, of varied width, depth and resolution, and from
a cell space. What is learned from is drawn with another seed than what is judged, and measured
among it: all three draws are spread evenly over the run, so that a machine that drifts meets them
alike. `search_*`: the network with the most arithmetic within a limit, found in the cell space by
the model's guesses and by FLOPs, with equal numbers of measurements; regret is against the best of
all its networks, which are all measured for that.

Each network is measured once and kept in `results/cnn-rows.json`, so that a run that was stopped,
or whose `--budget` was spent, goes on; `--fresh` measures them anew. Figures stand once none is
missing. It takes from two minutes to half an hour.

    python benchmarks/accuracy/cnn.py --json
"""

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import kept, measure  # noqa: E402
from paceline.cost.network import (  # noqa: E402
    LatencyModel,
    MeasuredNetwork,
    fit,
    network_flops,
)
from paceline.imagine.network_space import ImageNetwork, drawn, drawn_cells  # noqa: E402
from paceline.search.networks import Chosen, Guessed, within_latency  # noqa: E402

LEARNED, JUDGED, CELLS = 20, 200, 60
SEEDS = {"learned": 1, "judged": 2, "cells": 3}
MEASUREMENTS = 8
LIMITS = (0.25, 0.5, 0.75)  # quantiles of the space's latencies


@dataclass(frozen=True)
class Known:
    """A network that was measured, and what it is made of."""

    network: ImageNetwork
    measured: MeasuredNetwork

    @property
    def flops(self) -> int:
        return network_flops(self.measured.calls)


def main() -> None:
    parser = measure.parser(__doc__ or "")
    parser.add_argument("--fresh", action="store_true", help="measure anew what is kept")
    parser.add_argument("--budget", type=float, default=60.0, metavar="MINUTES",
                        help="begin no network after so long (60)")  # fmt: skip
    parser.add_argument("--threads", type=int, default=1, help="of torch (1: least disturbed)")
    options = parser.parse_args()
    measure.report("accuracy/cnn", figures(options), options)


def figures(options: argparse.Namespace) -> dict[str, Any]:
    import torch

    from paceline.measure.torch_network import peak_flops_per_s

    torch.set_num_threads(options.threads)
    counts = (14, 28, 12) if options.quick else (LEARNED, JUDGED, CELLS)
    parts = {
        "learned": drawn(counts[0], SEEDS["learned"]),
        "judged": drawn(counts[1], SEEDS["judged"]),
        "cells": drawn_cells(counts[2], SEEDS["cells"]),
    }
    makers = {str(network): partial(_row, network) for network in among(parts.values())}
    rows = kept.rows("cnn", makers, options.budget, fresh=options.fresh)
    missing = [name for name in makers if name not in rows]
    if missing:
        return {"missing": missing}
    known = {
        part: [_known(network, rows[str(network)]) for network in networks]
        for part, networks in parts.items()
    }
    peak = peak_flops_per_s()
    model = fit([each.measured for each in known["learned"]], peak)
    return {
        **judged(model, known["judged"]),
        "left_out_mape": model.error,
        "peak_gflops_per_s": peak / 1e9,
        **searched(model, known["cells"]),
        "networks": {name: len(found) for name, found in known.items()},
        "by_family": by_family(model, known["judged"]),
        "missing": missing,
    }


def among(parts: Iterable[Sequence[ImageNetwork]]) -> list[ImageNetwork]:
    """All of them, each part spread evenly over the whole."""
    placed = [
        ((at + 0.5) / len(part), network) for part in parts for at, network in enumerate(part)
    ]
    return [network for _, network in sorted(placed, key=itemgetter(0))]


def judged(model: LatencyModel, known: Sequence[Known]) -> dict[str, float]:
    took = np.array([float(each.measured.latency_ns) for each in known])
    said = np.array([model.latency_ns(each.measured.calls) for each in known])
    flops = np.array([float(each.flops) for each in known])
    errors = np.abs(said / took - 1)
    by_flops = flops * float(np.median(took / flops))  # the best single rate, even of these
    return {
        "mape": float(errors.mean()),
        "median_error": float(np.median(errors)),
        "worst_error": float(errors.max()),
        "rank_correlation": rank_correlation(said, took),
        "flops_rank_correlation": rank_correlation(flops, took),
        "flops_mape": float(np.abs(by_flops / took - 1).mean()),
        "utilisation_rank_correlation": rank_correlation(flops / said, flops / took),
    }


def by_family(model: LatencyModel, known: Sequence[Known]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for each in known:
        said = model.latency_ns(each.measured.calls)
        error = said / each.measured.latency_ns - 1
        found.setdefault(each.network.family, []).append(error)
    return {name: mean(map(abs, errors)) for name, errors in found.items()}


def searched(model: LatencyModel, known: Sequence[Known]) -> dict[str, float]:
    """Regret: by how much less arithmetic the found network has than the best within the limit."""
    if not known:
        return {}
    took = {each.network: each.measured.latency_ns for each in known}
    spaces = {
        "model": [Guessed(k.network, k.flops, model.latency_ns(k.measured.calls)) for k in known],
        "flops": [Guessed(k.network, k.flops, float(k.flops)) for k in known],
    }
    regrets: dict[str, list[float]] = {name: [] for name in spaces}
    for share in LIMITS:
        limit = int(np.quantile(list(took.values()), share))
        best = max(each.flops for each in known if each.measured.latency_ns <= limit)
        for name, space in spaces.items():
            found: Chosen[ImageNetwork] = within_latency(
                space, took.__getitem__, limit, MEASUREMENTS
            )
            got = found.best.flops if found.best else 0
            regrets[name].append(1 - got / best)
    return {f"search_{name}_regret": mean(each) for name, each in regrets.items()} | {
        "search_measurements": MEASUREMENTS
    }


def rank_correlation(one: "np.ndarray[Any, Any]", other: "np.ndarray[Any, Any]") -> float:
    """Spearman's."""
    ranks = (np.argsort(np.argsort(each)).astype(float) for each in (one, other))
    return float(np.corrcoef(*ranks)[0, 1])


def _row(network: ImageNetwork) -> kept.Row:
    from paceline.imagine.torch_zoo import built
    from paceline.measure.torch_network import measured

    found = measured(str(network), built(network), network.shape)
    return {"latency_ns": found.latency_ns, "call_ns": list(found.call_ns)}


def _known(network: ImageNetwork, row: Mapping[str, Any]) -> Known:
    from paceline.imagine.torch_network import calls_of
    from paceline.imagine.torch_zoo import imagined

    calls = calls_of(imagined(network), network.shape)
    took = tuple(row["call_ns"])
    return Known(network, MeasuredNetwork(str(network), calls, took, row["latency_ns"]))


if __name__ == "__main__":
    main()
