"""A `LatencyModel` as JSON and back."""

import json
from pathlib import Path

import numpy as np

from paceline.cost.errors import CostError
from paceline.cost.network.latency import LatencyModel
from paceline.cost.network.terms import CallKind


def save(model: LatencyModel, path: Path) -> None:
    plain = {
        "coefficients": {kind.value: each.tolist() for kind, each in model.coefficients.items()},
        "shares": {kind.value: each for kind, each in model.shares.items()},
        "between_ns": model.between_ns,
        "peak_flops_per_s": model.peak_flops_per_s,
        "networks": list(model.networks),
        "error": model.error,
    }
    path.write_text(json.dumps(plain, indent=1))


def load(path: Path) -> LatencyModel:
    try:
        plain = json.loads(path.read_text())
        return LatencyModel(
            {CallKind(kind): np.array(each) for kind, each in plain["coefficients"].items()},
            {CallKind(kind): float(each) for kind, each in plain["shares"].items()},
            float(plain["between_ns"]),
            float(plain["peak_flops_per_s"]),
            tuple(plain["networks"]),
            float(plain["error"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CostError(
            f"{path} holds nothing learned of a machine: {error}. Make it with "
            "`paceline latency --learn FILE`"
        ) from error
