"""The preset of a GPU, by the name that its driver gives it, or that an imagined run keeps."""

import re
from typing import Final

from paceline.cluster.cluster import Device
from paceline.cluster.files import device
from paceline.cluster.presets import table
from paceline.graph.facts import RecordedGpu

_SPELLED: Final = tuple(
    (re.compile(spelling), name)
    for spelling, name in (
        (r"\bMI300X\b", "mi300x"),
        (r"\bMI210\b", "mi210"),
        (r"\bMI100\b", "mi100"),
        (r"\bGB300\b(?!.*WS)", "gb300"),
        (r"\bB300\b", "b300"),
        (r"\bGB200\b", "gb200"),
        (r"\bB200\b", "b200"),
        (r"\bH200\b(?!.*NVL)", "h200"),
        (r"\bH100\b(?!.*(?:PCI[Ee]|NVL))", "h100"),
        (r"\bA100\b(?=.*PCI[Ee]).*80GB", "a100-pcie-80"),
        (r"\bA100\b.*PCI[Ee]", "a100-pcie-40"),
        (r"\bA100\b.*80GB", "a100-80"),
        (r"\bA100\b", "a100-40"),
        (r"\bV100-PCI[Ee]", "v100-pcie-32"),
        (r"\bV100\b", "v100"),
        (r"\bP100-PCI[Ee]", "p100-pcie"),
        (r"\bL40S\b", "l40s"),
        (r"\bL4\b", "l4"),
        (r"\bT4\b", "t4"),
    )
)
"""What of a driver's name (`torch.cuda.get_device_name`) tells the device; boards with other
figures, such as those that have a name's chip on a card with less power, are left out."""
_UNITS_APART: Final = 0.03
"""Boards of a name may have so many more or fewer processors than its sheet says: a GB200 has 152,
where its sheet's share of a system has 148. A slice of a device has far fewer."""


def recognised(gpu: RecordedGpu) -> Device | None:
    """None where no preset is that GPU, or has not its number of processors."""
    presets = table("devices")
    spelled = (name for spelling, name in _SPELLED if spelling.search(gpu.name))
    name = gpu.name if gpu.name in presets else next(spelled, None)
    if name is None or name not in presets:
        return None
    found = device(name)
    alike = abs(gpu.units - found.units) <= _UNITS_APART * found.units
    return found if alike or not gpu.units else None


def kept(given: Device) -> RecordedGpu:
    """What a run that was imagined for a device keeps of it: a preset is recognised again, and one
    with figures of its own is not taken for the preset that it was made from."""
    is_preset = given.name in table("devices") and given == device(given.name)
    name = given.name if is_preset else f"{given.name} with figures of its own"
    return RecordedGpu(name, given.memory_bytes, given.units)
