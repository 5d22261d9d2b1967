"""Data sheets of the devices in tables of measurements: devices.json or devices.yaml beside them.

devices.yaml has the fields of a cluster file's devices; devices.json is NeuSight's.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import yaml

from paceline.cluster.files import device
from paceline.cluster.presets import table as presets
from paceline.cost.errors import CostError
from paceline.cost.forecast.sheet import Sheet, sheet_of
from paceline.cost.forecast.unreadable import BROKEN, spelled
from paceline.graph.kinds import Vendor

_Reader = Callable[[str, Mapping[str, Any]], Sheet]


def sheets_of(folder: Path) -> dict[str, Sheet]:
    """By name. What they leave out comes from presets of that name."""
    if not folder.is_dir():
        raise CostError(f"{folder} is no folder; give one that holds tables and devices.yaml")
    for name, read in _READERS.items():
        if (path := folder / name).exists():
            return {one: _read(path, one, given, read) for one, given in _document(path).items()}
    raise CostError(f"{folder} has neither {' nor '.join(_READERS)}; give the data sheets")


def _document(path: Path) -> Mapping[str, Any]:
    try:
        document = yaml.safe_load(path.read_text())  # JSON is YAML too
    except BROKEN as error:
        raise CostError(f"{path} cannot be read: {spelled(error)}") from error
    if not isinstance(document, dict) or not document:
        raise CostError(f"{path} cannot be read: it names no device; give each with its figures")
    return document


def _read(path: Path, name: str, given: Any, read: _Reader) -> Sheet:
    try:
        return read(str(name), given)
    except BROKEN as error:
        raise CostError(f"{path}: the sheet of {name} cannot be read: {spelled(error)}") from error


def _from_yaml(name: str, given: Mapping[str, Any]) -> Sheet:
    known = presets("devices").get(_preset(name), {})
    extra = {field: known[field] for field in ("cache", "power", "process") if field in known}
    return sheet_of(device({**extra, **given, "name": name}))


def _preset(name: str) -> str:
    """The preset of a device whose name also says its form: `a100_sxm` is a100-80."""
    plain = name.removesuffix("_sxm").replace("_", "-")
    return {"a100": "a100-80"}.get(plain, plain)


def _from_json(name: str, given: Mapping[str, Any]) -> Sheet:
    rate = given.get("SingleFLOPs") or given["SingleFLOPsMM"]
    amd = "SingleFLOPsMM" in given
    known = presets("devices").get(_ALIASES.get(name, name), {})
    sheet = sheet_of(device({
        "name": name, "kind": "gpu", "memory_rate": f"{given['Mem_Bw']}GB/s",
        "units": given["Num_Sm"], "clock": f"{given['Freq'] / 1000}GHz",
        "flops": {"float32": f"{rate}GFLOPS"}, "cache": f"{given['L2Cache']}MiB",
        "power": known.get("power", 0), "process": known.get("process", 0),
        "link": known.get("link", 0), "memory": f"{given['Dev_Mem']}GiB",
        "vendor": (Vendor.AMD if amd else Vendor.NVIDIA).value,
    }))  # fmt: skip
    return replace(sheet, vector_flops=float(given.get("SingleFLOPsVEC", rate)) * 1e9)


_ALIASES: Final = {"a100-sxm-40": "a100-40", "h100-sxm": "h100", "mi250": "mi210"}
_READERS: Final[Mapping[str, _Reader]] = {"devices.json": _from_json, "devices.yaml": _from_yaml}
