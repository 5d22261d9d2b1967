"""What each layer of a model costs at a micro-batch size: the planners' input, as JSON.

    {"sizes": {"4": [{"name": "block 0", "forward_ns": 900, "backward_ns": 1800, "update_ns": 50,
                      "weight_bytes": 4000, "kept_bytes": 900, "input_bytes": 100,
                      "output_bytes": 100}, ...], "8": [...]}}

`kept_bytes` is what the backward pass needs of one micro-batch, the layer's input included.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from paceline.errors import FileError
from paceline.place.pipeline.errors import PlanError


@dataclass(frozen=True)
class LayerCost:
    """One layer, one micro-batch. Also several layers in a row, as one stage."""

    name: str
    forward_ns: int
    backward_ns: int
    update_ns: int = 0
    weight_bytes: int = 0
    kept_bytes: int = 0
    input_bytes: int = 0
    output_bytes: int = 0

    @property
    def compute_ns(self) -> int:
        return self.forward_ns + self.backward_ns


@dataclass(frozen=True)
class PipelineProfile:
    """The layers of a model, in order, at each measured micro-batch size; `notes` say what of them
    is not known, or not well."""

    sizes: Mapping[int, tuple[LayerCost, ...]]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.sizes or not all(self.sizes.values()):
            raise PlanError("the profile has no layers; give at least one micro-batch size of them")
        if len({len(layers) for layers in self.sizes.values()}) > 1:
            counts = {size: len(layers) for size, layers in self.sizes.items()}
            raise PlanError(f"the sizes have unequally many layers: {counts}; profile one model")
        for size, layers in self.sizes.items():
            _check(size, layers)

    @property
    def layers(self) -> int:
        return len(next(iter(self.sizes.values())))

    def stages(self, size: int, count: int) -> tuple[LayerCost, ...]:
        """The layers at a micro-batch size as equally long stages."""
        if count < 1 or self.layers % count:
            raise PlanError(
                f"{self.layers} layers do not divide into {count} equal stages; give a divisor"
            )
        width = self.layers // count
        rows = self.sizes[size]
        return tuple(joined(rows[i : i + width]) for i in range(0, len(rows), width))


def joined(layers: tuple[LayerCost, ...]) -> LayerCost:
    """Layers in a row as one stage."""
    first, last = layers[0], layers[-1]
    name = first.name if len(layers) == 1 else f"{first.name} to {last.name}"
    return LayerCost(
        name,
        sum(x.forward_ns for x in layers),
        sum(x.backward_ns for x in layers),
        sum(x.update_ns for x in layers),
        sum(x.weight_bytes for x in layers),
        sum(x.kept_bytes for x in layers),
        first.input_bytes,
        last.output_bytes,
    )


def read_profile(path: Path) -> PipelineProfile:
    try:
        text = json.loads(path.read_text())
    except OSError as missing:
        raise FileError(f"cannot read the profile {path}: {missing.strerror}") from missing
    except (UnicodeDecodeError, json.JSONDecodeError) as broken:
        raise FileError(f"{path} is not JSON: {broken}") from broken
    return profile_from_data(text, str(path))


def profile_from_data(data: Any, origin: str) -> PipelineProfile:
    """A profile from what JSON holds."""
    if not isinstance(data, dict) or not isinstance(data.get("sizes"), dict):
        raise FileError(
            f'{origin} is no profile: give {{"sizes": {{"MICRO-BATCH": [LAYER, ...]}}}}'
        )
    sizes = {_size(key, origin): _layers(rows, origin) for key, rows in data["sizes"].items()}
    silent = sorted(
        {row["name"] for rows in data["sizes"].values() for row in rows[1:]
         if "input_bytes" not in row}
    )  # fmt: skip
    return PipelineProfile(sizes, tuple(_silent(silent)))


def profile_to_data(profile: PipelineProfile) -> dict[str, Any]:
    return {"sizes": {str(b): [asdict(x) for x in rows] for b, rows in profile.sizes.items()}}


def _silent(layers: Sequence[str]) -> Iterator[str]:
    if layers:
        yield (
            f"the profile has no input_bytes of {len(layers)} layers ({layers[0]}, ...): messages "
            "to them count as free"
        )


def _check(size: int, layers: tuple[LayerCost, ...]) -> None:
    for layer in layers:
        if min(getattr(layer, f.name) for f in fields(layer) if f.name != "name") < 0 or size < 1:
            raise PlanError(f"micro-batch {size}, {layer}: sizes and costs must not be negative")
    if sum(layer.compute_ns for layer in layers) == 0:
        raise PlanError(f"at micro-batch {size} no layer takes any time; measure forward_ns")


def _size(key: str, origin: str) -> int:
    if not key.isdecimal():
        raise FileError(f"{origin}: a micro-batch size is a whole number, not {key!r}")
    return int(key)


def _layers(rows: Any, origin: str) -> tuple[LayerCost, ...]:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise FileError(f"{origin}: each size has a list of layers")
    return tuple(_layer(row, origin) for row in rows)


def _layer(row: dict[str, Any], origin: str) -> LayerCost:
    known = {f.name for f in fields(LayerCost)}
    missing = {"name", "forward_ns", "backward_ns"} - set(row)
    if missing or set(row) - known:
        raise FileError(
            f"{origin}: layer {row.get('name', '?')} lacks {sorted(missing)} or has the unknown "
            f"{sorted(set(row) - known)}; known are {sorted(known)}"
        )
    numbers = {k: v for k, v in row.items() if k != "name"}
    for key, value in numbers.items():
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
        ):
            raise FileError(f"{origin}: {key} of layer {row['name']} is {value!r}, not a number")
    return LayerCost(str(row["name"]), **{k: round(v) for k, v in numbers.items()})
