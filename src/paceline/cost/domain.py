"""Collectives of NCCL among the GPUs of one host, by what they took on hosts that were measured.

Tables have 2, 4 and 8 GPUs (`forecast/domain.py`: steps, protocols, sums in the switch). More of
them send (n - 1) / n of the bytes in place of 7 / 8, and take more steps. Such a time does not
depend on the network between hosts. It counts where the device or one like it was measured, by
the rates of link and memory; other hosts go by closed forms.
"""

from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Final

import numpy as np

from paceline.cluster import Cluster, Device, Host
from paceline.cost.collectives import Call
from paceline.cost.forecast import Kind, Learned, Question, Sheet, ask, keys, sheet_of, shipped
from paceline.cost.forecast.domain import CALLS, DOMAIN, PCIE_BYTES_PER_S
from paceline.cost.forecast.likeness import likeness
from paceline.graph.kinds import Collective, DeviceKind, DType, Vendor

_NCCL: Final = 27.0  # the version whose times are asked for
_MEASURED: Final = (2, 4, 8)  # numbers of GPUs in the tables
_STEP_NS: Final = 500.0
"""Of each GPU beyond those (not measured here)."""
_ALIKE: Final = 0.1
"""How far a fabric's rate may be from that of the device's link."""


def in_host_ns(call: Call, cluster: Cluster) -> float | None:
    """What a call takes whose members share a host; None where no table tells of it."""
    alone = call.members < 2 or call.size_bytes <= 0
    if call.collective not in CALLS or alone or len(set(call.hosts)) > 1:
        return None
    sheet = _sheet(cluster.hosts[call.hosts[0]])
    if sheet is None or cluster.transport.fabric_efficiency != 1:
        return None
    return domain_ns(sheet, call.collective, call.size_bytes, call.members)


def domain_ns(sheet: Sheet, call: Collective, size_bytes: float, ranks: int) -> float:
    """`size_bytes` are those of the larger buffer."""
    known = next((n for n in _MEASURED if n >= ranks), _MEASURED[-1])
    share = ((ranks - 1) / ranks) / ((known - 1) / known)
    more = max(0, ranks - known) * _STEP_NS
    return _measured_ns(_Named(sheet), call, size_bytes, known) * share + more


def words(host: Host) -> str:
    """What such a forecast rests on, and how far it may be off."""
    learned, sheet = _learned(), _sheet(host)
    name = host.device.name if sheet is None else sheet.name
    known = learned.known_as(name) is not None
    on, off = ("", learned.known_spread) if known else ("devices like ", learned.spread)
    return f"NCCL within a host: measured on {on}{name}, off by {off:.0%} (mean)"


def _sheet(host: Host) -> Sheet | None:
    """None where the tables have no device like the host's."""
    if host.fabric is None:
        return None
    rate = min(host.fabric.free_up_bytes_per_s, host.fabric.free_down_bytes_per_s)
    return _on_fabric(host.device, rate)


@cache
def _on_fabric(device: Device, bytes_per_s: float) -> Sheet | None:
    """The device on links of that rate; where they are not its own, it is one that nobody measured.
    What goes over PCIe hangs on the host as much as on the device, and one such host was measured,
    so of these nothing is told."""
    if device.kind is not DeviceKind.GPU or device.vendor is not Vendor.NVIDIA:
        return None
    if bytes_per_s <= PCIE_BYTES_PER_S or not device.memory_bytes_per_s:
        return None
    sheet, learned = sheet_of(device), _learned()
    if abs(bytes_per_s / max(device.link_bytes_per_s, 1.0) - 1) > _ALIKE:
        name = f"{device.name} on links of {bytes_per_s / 1e9:g} GB/s"
        sheet = replace(sheet, name=name, link_bytes_per_s=bytes_per_s)
    like = likeness(DOMAIN.traits(sheet, DType.FLOAT16), learned.traits)
    return sheet if learned.known_as(sheet.name) is not None or any(like) else None


def _learned() -> Learned:
    return shipped().of(keys("domain", DType.FLOAT16, Vendor.NVIDIA))


@lru_cache(maxsize=65536)
def _measured_ns(sheet: "_Named", call: Collective, size_bytes: float, ranks: int) -> float:
    cells = (CALLS.index(call), ranks, size_bytes, _NCCL, 2)
    dims = {name: np.array([cell], np.float32) for name, cell in zip(DOMAIN.columns, cells)}
    question = Question(dims, DType.FLOAT16, sheet.sheet)
    kind = Kind(DOMAIN, keys("domain", DType.FLOAT16, sheet.sheet.vendor))
    return float(ask(kind, question, shipped()).dur_ns[0])


@dataclass(frozen=True, eq=False)
class _Named:
    """A sheet that is told apart by its device's name."""

    sheet: Sheet

    def __hash__(self) -> int:
        return hash(self.sheet.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Named) and self.sheet == other.sheet
