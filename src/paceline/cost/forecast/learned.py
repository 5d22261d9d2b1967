"""`Learned`: constants of one kind of operator, and the small file that holds all of them.

The file is NumPy's `.npz`: per key the coefficients of its formulas, a net for any device, a net
that also knows the devices which were measured, and how far both were off.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from paceline.cost.errors import CostError
from paceline.cost.forecast.likeness import Traits
from paceline.cost.forecast.method import Column
from paceline.cost.forecast.net import Net
from paceline.cost.forecast.unreadable import BROKEN, spelled


@dataclass(frozen=True, eq=False)
class Learned:
    """`net` serves any device; `known`, whose last inputs say which of `devices` it is, those and
    the ones that are like them."""

    values: Mapping[str, float]
    net: Net | None = None
    known: Net | None = None
    devices: tuple[str, ...] = ()
    traits: tuple[Traits, ...] = ()  # of these devices
    spread: float = 0.36  # mean error on a device left out
    known_spread: float = 0.12  # on shapes held back, of devices that were measured
    rows: int = 0

    def known_as(self, name: str) -> str | None:
        """The name under which a device was measured: tables also say its form (`h200_sxm`)."""
        like = (name, f"{name}_sxm", *_ALSO.get(name, ()))
        return next((one for one in like if one in self.devices), None)


_ALSO: Final[Mapping[str, tuple[str, ...]]] = {
    "a100-80": ("a100_sxm",),
    "gb300": ("b300_sxm",),  # the same chip at a higher clock
}


@dataclass(frozen=True)
class Refinement:
    """Measured over forecast of one kind of operators on one device, at a few forecast times."""

    told_ns: tuple[float, ...]  # ascending
    factors: tuple[float, ...]
    spread: float = 0.0  # mean error that is left, on rows that were left out
    rows: int = 0

    def factors_at(self, told_ns: Column) -> Column:
        """Between those times by their logarithms; beyond them as at the last."""
        at, known = np.log(np.maximum(told_ns, 1.0)), np.log(self.told_ns)
        return np.asarray(np.exp(np.interp(at, known, np.log(self.factors))), np.float32)


@dataclass(frozen=True, eq=False)
class Constants:
    """All that was fitted, by key, with where it comes from and when it was fitted. `refined` is
    what was measured on a device itself, by its name and by key; `call_ns` what the host beside it
    spends on a call of an operator."""

    learned: Mapping[str, Learned]
    source: str = ""
    date: str = ""
    refined: Mapping[str, Mapping[str, Refinement]] = field(default_factory=dict)
    call_ns: Mapping[str, float] = field(default_factory=dict)

    def first_of(self, keys: tuple[str, ...]) -> str | None:
        """The first of these keys that was fitted."""
        return next((key for key in keys if key in self.learned), None)

    def over(self, others: "Constants") -> "Constants":
        """These, and of kinds that they do not hold the others'."""
        of = f", of {', '.join(sorted(self.learned))}" if self.learned else ""
        on = f", refined on {', '.join(sorted(self.refined))}" if self.refined else ""
        source = f"{self.source or 'no source is told'}{of}{on}; else {others.source}"
        learned = {**others.learned, **self.learned}
        refined = {**others.refined, **self.refined}
        return Constants(learned, source, self.date, refined, {**others.call_ns, **self.call_ns})

    def refinement(self, device: str, keys: tuple[str, ...]) -> Refinement | None:
        """What was measured on the device under the first of these keys that it has."""
        known = self.refined.get(device, {})
        return next((known[key] for key in keys if key in known), None)

    def alike_to(self, names: tuple[str, ...]) -> "Constants":
        """The same, where a kind that does not know all of these devices by name knows none, nor is
        one of them refined alone: what was measured of one is not to be set beside what is expected
        of another."""
        made = {
            key: one if all(map(one.known_as, names)) else replace(one, known=None, devices=())
            for key, one in self.learned.items()
        }
        both = all(name in self.refined for name in names)
        return replace(self, learned=made, refined=self.refined if both else {})

    def of(self, keys: tuple[str, ...]) -> Learned:
        """What was learned under the first of these keys that was fitted."""
        key = self.first_of(keys)
        if key is not None:
            return self.learned[key]
        raise CostError(
            f"nothing was fitted for {keys[0]}; fitted are {', '.join(sorted(self.learned))}. "
            "Fit constants with `paceline fit TABLES -o FILE`."
        )


def save(constants: Constants, path: Path) -> None:
    arrays: dict[str, np.ndarray] = {}
    about: dict[str, object] = {"source": constants.source, "date": constants.date}
    kinds = {}
    for key, one in constants.learned.items():
        kinds[key] = {
            "values": {name: float(f"{value:.6g}") for name, value in one.values.items()},
            "devices": one.devices,
            "traits": [[round(trait, 4) for trait in each] for each in one.traits],
            "spread": one.spread,
            "known_spread": one.known_spread,
            "rows": one.rows,
        }
        for role, net in (("net", one.net), ("known", one.known)):
            arrays |= {} if net is None else _packed(f"{key}/{role}", net)
    about["kinds"] = kinds
    about["call_ns"] = dict(constants.call_ns)
    about["refined"] = {
        device: {key: asdict(one) for key, one in known.items()}
        for device, known in constants.refined.items()
    }
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    with path.open("wb") as file:  # NumPy would add an ending to a path
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def load(file: str | Path | IO[bytes]) -> Constants:
    """Constants that `save` wrote."""
    try:
        if not isinstance(file, (str, Path)):
            return _loaded(file)
        with Path(file).open("rb") as opened:  # NumPy leaves a broken file open
            return _loaded(opened)
    except BROKEN as error:
        raise CostError(
            f"{file} holds no constants of forecasts ({spelled(error)}); give what `paceline fit "
            "TABLES -o FILE` wrote"
        ) from error


def _loaded(file: IO[bytes]) -> Constants:
    with np.load(file) as arrays:
        about = json.loads(arrays["about"].tobytes())
        learned = {
            key: Learned(
                values=kind["values"],
                net=_unpacked(f"{key}/net", arrays),
                known=_unpacked(f"{key}/known", arrays),
                devices=tuple(kind["devices"]),
                traits=tuple(tuple(each) for each in kind.get("traits", ())),
                spread=kind["spread"],
                known_spread=kind["known_spread"],
                rows=kind["rows"],
            )
            for key, kind in about["kinds"].items()
        }
    refined = {
        device: {key: _refinement(one) for key, one in known.items()}
        for device, known in about.get("refined", {}).items()
    }
    calls = about.get("call_ns", {})
    return Constants(learned, about["source"], about["date"], refined, calls)


def _refinement(told: Mapping[str, Any]) -> Refinement:
    return Refinement(tuple(told["told_ns"]), tuple(told["factors"]), told["spread"], told["rows"])


@cache
def shipped() -> Constants:
    """The constants that come with the package."""
    with (files("paceline.cost.forecast") / "constants.npz").open("rb") as file:
        return load(file)


def _packed(name: str, net: Net) -> dict[str, np.ndarray]:
    found = {f"{name}/mean": net.mean, f"{name}/scale": net.scale}
    for at, (weights, bias) in enumerate(net.layers):
        found[f"{name}/{at}w"], found[f"{name}/{at}b"] = weights.astype(np.float16), bias
    return found


def _unpacked(name: str, arrays: Mapping[str, np.ndarray]) -> Net | None:
    if f"{name}/mean" not in arrays:
        return None
    layers = tuple(
        (arrays[f"{name}/{at}w"].astype(np.float32), arrays[f"{name}/{at}b"]) for at in range(3)
    )
    return Net(arrays[f"{name}/mean"], arrays[f"{name}/scale"], layers)
