"""Recorded routing of a mixture of experts: how many rows fell on each expert, layer by layer.

    model = routed(decoder("qwen3-30b-a3b"), read_routing(Path("routing.json")))

The file is JSON: a list with a count for each expert, or a list of such lists, one for each layer.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from paceline.errors import FileError, GraphError
from paceline.imagine.decoder.model import Decoder, Routing

Counts = Sequence[Sequence[int]]


def read_routing(path: Path) -> Counts:
    """Counts by layer and expert."""
    try:
        given = json.loads(path.read_text())
    except OSError as error:
        raise FileError(f"cannot read routing {path}: {error.strerror}") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FileError(f"routing {path} is not JSON: {error}") from error
    layers = given if isinstance(given, list) and given and isinstance(given[0], list) else [given]
    if not all(isinstance(row, list) and row and all(map(_is_count, row)) for row in layers):
        raise FileError(
            f"routing {path} is not counts of rows: give a list with a whole number for each "
            "expert, or such a list for each layer"
        )
    return layers


def routed(model: Decoder, counts: Counts) -> Decoder:
    """The model with its experts loaded as counted; layers with the same load are alike."""
    experts = model.experts
    if experts is None:
        raise GraphError(f"{model.name} has no experts, so it has no routing; leave it away")
    for layer, row in enumerate(counts):
        if len(row) != experts.count or sum(row) <= 0:
            raise GraphError(
                f"routing of layer {layer} counts {sum(row)} rows on {len(row)} experts; "
                f"{model.name} has {experts.count}, and some rows must fall on them"
            )
    shares = tuple(tuple(count / sum(row) for count in row) for row in counts)
    return replace(model, experts=replace(experts, routing=Routing(shares)))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
