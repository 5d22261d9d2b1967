"""Rates that devices achieve, by `achieved.yaml` and their data sheets."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

import yaml

from paceline.cluster import ClusterError, Device
from paceline.cluster import quantities as q
from paceline.graph.kinds import DType, Vendor

_AMD: Final = ("mi", "amd", "radeon")
_WIDER: Final = {
    DType.FLOAT4: DType.FLOAT8,
    DType.FLOAT8: DType.BFLOAT16,
    DType.INT8: DType.BFLOAT16,
    DType.BFLOAT16: DType.FLOAT16,
    DType.FLOAT16: DType.FLOAT32,
}
"""In what a device computes that has not a type."""


@dataclass(frozen=True)
class Achieved:
    """What large kernels reach on a device, and how long the smallest takes."""

    flops_per_s: Mapping[DType, float]
    memory_bytes_per_s: float
    least_ns: float
    source: str


def rate_of(known: Achieved, dtype: DType) -> float:
    """Operations per second of products of that type, or of the next wider that there is. Tensor
    cores round float32 to TF32 at half the rate of bfloat16 (A100, H100, B200; MI300X's XF32)."""
    if dtype is DType.TFLOAT32 and dtype not in known.flops_per_s:
        half = known.flops_per_s.get(DType.BFLOAT16, 0.0) / 2
        return half or rate_of(known, DType.FLOAT32)
    kind: DType | None = dtype
    while kind is not None:
        if kind in known.flops_per_s:
            return known.flops_per_s[kind]
        kind = _WIDER.get(kind)
    return known.flops_per_s.get(DType.FLOAT32, max(known.flops_per_s.values()))


def achieved(device: Device) -> Achieved:
    """Where no source tells a rate: the data sheet's, by the share typical of the vendor. Rates
    that kernels reached are achieved as they are."""
    if not device.memory_bytes_per_s or not device.flops_per_s:
        raise ClusterError(
            f"device {device.name} has no memory_rate or no flops, so kernels cannot be carried "
            "to or from it; give both in the cluster file, or take a preset"
        )
    told, typical, memory = _told(device), _typical(device), achieved_memory(device)
    if device.reached:
        flops, source = device.flops_per_s, device.source
        return Achieved(flops, memory.bytes_per_s, memory.least_ns, source)
    sheet = {kind: rate * typical["matrix"] for kind, rate in device.flops_per_s.items()}
    known = {DType[k.upper()]: q.arithmetic(v, k) for k, v in told.items() if k.upper() in _TYPES}
    return Achieved(
        flops_per_s={**sheet, **known},
        memory_bytes_per_s=memory.bytes_per_s,
        least_ns=memory.least_ns,
        source=told.get("source", f"data sheet, and {_shares(device)}: {device.source}"),
    )


@dataclass(frozen=True)
class AchievedMemory:
    """The rate that large kernels of little arithmetic reach, and how long the smallest takes."""

    bytes_per_s: float
    least_ns: float


def achieved_memory(device: Device) -> AchievedMemory:
    """Of a device whose arithmetic need not be known."""
    told, typical = _told(device), _typical(device)
    least_ns = float(q.duration(told.get("least", typical["least"]), "least"))
    if device.reached:
        return AchievedMemory(device.memory_bytes_per_s, least_ns)
    memory = q.rate(told["memory"], "memory") if "memory" in told else 0.0
    return AchievedMemory(memory or device.memory_bytes_per_s * typical["memory"], least_ns)


def _told(device: Device) -> Mapping[str, Any]:
    found: Mapping[str, Any] = _table()["devices"].get(device.name, {})
    return found


def _typical(device: Device) -> Mapping[str, Any]:
    maker = "amd" if device.name.lower().startswith(_AMD) else "nvidia"
    found: Mapping[str, Any] = _table()["typical"][maker]
    return found


def _shares(device: Device) -> str:
    if device.vendor is Vendor.OTHER:
        return "shares typical of NVIDIA's GPUs, for of its maker nothing was measured"
    return "shares typical of its vendor"


def sheet(device: Device) -> Achieved:
    """The data sheet's own rates."""
    return Achieved(device.flops_per_s, device.memory_bytes_per_s, 0.0, device.source)


_TYPES: Final = frozenset(DType.__members__)


@cache
def _table() -> Mapping[str, Any]:
    found: Mapping[str, Any] = yaml.safe_load(
        files(__package__).joinpath("achieved.yaml").read_text()
    )
    return found
