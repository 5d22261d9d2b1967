"""Collectives of NCCL among the GPUs of one host, by what they took on hosts that were measured.

Tables have 2, 4 and 8 GPUs (`forecast/domain.py`: steps, protocols, sums in the switch). More of
them send (n - 1) / n of the bytes in place of 7 / 8, and take more steps. Such a time does not
depend on the network between hosts. It counts where the device or one like it was measured, by
the rates of link and memory; other hosts go by closed forms.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np

from paceline.cluster import Cluster, Device, Host
from paceline.cost.collectives import Call
from paceline.cost.forecast import (
    Constants,
    ForecastQuestion,
    Kind,
    Learned,
    Sheet,
    ask,
    keys,
    sheet_of,
    shipped,
)
from paceline.cost.forecast.domain import CALLS, DOMAIN, PCIE_BYTES_PER_S
from paceline.cost.forecast.likeness import likeness
from paceline.graph.kinds import Collective, DeviceKind, DType, Vendor

_NCCL: Final = 27.0  # the version whose times are asked for
_MEASURED: Final = (2, 4, 8)  # numbers of GPUs in the tables
_STEP_NS: Final = 500.0
"""Of each GPU beyond those (not measured here)."""
_ALIKE: Final = 0.1
"""How far a fabric's rate may be from that of the device's link."""


def in_host_ns(call: Call, cluster: Cluster, constants: Constants | None = None) -> float | None:
    """What a call takes whose members share a host; None where no table tells of it."""
    alone = call.members < 2 or call.size_bytes <= 0
    if call.collective not in CALLS or alone or len(set(call.hosts)) > 1:
        return None
    domain = _domain(cluster.hosts[call.hosts[0]], constants or shipped())
    if domain is None or cluster.transport.fabric_efficiency != 1:
        return None
    return domain.ns(call.collective, call.size_bytes, call.members)


@dataclass(frozen=True, eq=False)
class Domain:
    """GPUs of one kind that are linked to one another, and what their calls are priced by. Told
    apart by the device's name and by the constants themselves."""

    sheet: Sheet
    constants: Constants

    def ns(self, call: Collective, size_bytes: float, ranks: int) -> float:
        """`size_bytes` are those of the larger buffer."""
        known = next((n for n in _MEASURED if n >= ranks), _MEASURED[-1])
        share = ((ranks - 1) / ranks) / ((known - 1) / known)
        more = max(0, ranks - known) * _STEP_NS
        return _measured_ns(self, call, size_bytes, known) * share + more

    def __hash__(self) -> int:
        return hash((self.sheet.name, id(self.constants)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Domain):
            return NotImplemented
        return self.constants is other.constants and self.sheet == other.sheet


def words(host: Host, constants: Constants | None = None) -> str:
    """What such a forecast rests on, and how far it may be off."""
    constants = constants or shipped()
    domain, learned = _domain(host, constants), _learned(constants)
    name = host.device.name if domain is None else domain.sheet.name
    known = learned.known_as(name) is not None
    on, off = ("", learned.known_spread) if known else ("devices like ", learned.spread)
    return f"NCCL within a host: measured on {on}{name}, off by {off:.0%} (mean)"


def _domain(host: Host, constants: Constants) -> Domain | None:
    """None where the tables have no device like the host's."""
    if host.fabric is None:
        return None
    rate = min(host.fabric.free_up_bytes_per_s, host.fabric.free_down_bytes_per_s)
    return _on_fabric(host.device, rate, constants)


@lru_cache(maxsize=256)
def _on_fabric(device: Device, bytes_per_s: float, constants: Constants) -> Domain | None:
    """The device on links of that rate; where they are not its own, it is one that nobody measured.
    What goes over PCIe hangs on the host as much as on the device, and one such host was measured,
    so of these nothing is told."""
    if device.kind is not DeviceKind.GPU or device.vendor is not Vendor.NVIDIA:
        return None
    if bytes_per_s <= PCIE_BYTES_PER_S or not device.memory_bytes_per_s:
        return None
    sheet, learned = sheet_of(device), _learned(constants)
    if abs(bytes_per_s / max(device.link_bytes_per_s, 1.0) - 1) > _ALIKE:
        name = f"{device.name} on links of {bytes_per_s / 1e9:g} GB/s"
        sheet = replace(sheet, name=name, link_bytes_per_s=bytes_per_s)
    like = likeness(DOMAIN.traits(sheet, DType.FLOAT16), learned.traits)
    told = learned.known_as(sheet.name) is not None or any(like)
    return Domain(sheet, constants) if told else None


def _learned(constants: Constants) -> Learned:
    return constants.of(keys("domain", DType.FLOAT16, Vendor.NVIDIA))


@lru_cache(maxsize=65536)
def _measured_ns(domain: Domain, call: Collective, size_bytes: float, ranks: int) -> float:
    cells, sheet = (CALLS.index(call), ranks, size_bytes, _NCCL, 2), domain.sheet
    dims = {name: np.array([cell], np.float32) for name, cell in zip(DOMAIN.columns, cells)}
    question = ForecastQuestion(dims, DType.FLOAT16, sheet)
    kind = Kind(DOMAIN, keys("domain", DType.FLOAT16, sheet.vendor))
    return float(ask(kind, question, domain.constants).dur_ns[0])
