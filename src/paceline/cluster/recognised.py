"""The preset of a GPU, by the name that its driver gives it, or that an imagined run keeps."""

import re
from typing import Final

from paceline.cluster.cluster import Device
from paceline.cluster.files import device
from paceline.cluster.presets import table
from paceline.graph.facts import RecordedGpu

_SPELLED: Final = (
    (re.compile(r"\bMI300X\b"), "mi300x"),
    (re.compile(r"\bB200\b"), "b200"),
    (re.compile(r"\bH200\b"), "h200"),
    (re.compile(r"\bH100\b(?!.*(?:PCIe|NVL))"), "h100"),
    (re.compile(r"\bA100\b.*80GB"), "a100-80"),
    (re.compile(r"\bA100\b"), "a100-40"),
    (re.compile(r"\bV100\b"), "v100"),
    (re.compile(r"\bL4\b"), "l4"),
)
"""What of a driver's name tells the device; boards with other figures (PCIe) are left out."""


def recognised(gpu: RecordedGpu) -> Device | None:
    """None where no preset is that GPU, or has not its number of processors."""
    presets = table("devices")
    spelled = (name for spelling, name in _SPELLED if spelling.search(gpu.name))
    name = gpu.name if gpu.name in presets else next(spelled, None)
    if name is None or name not in presets:
        return None
    found = device(name)
    return found if gpu.units in (0, found.units) else None


def kept(given: Device) -> RecordedGpu:
    """What a run that was imagined for a device keeps of it: a preset is recognised again, and one
    with figures of its own is not taken for the preset that it was made from."""
    is_preset = given.name in table("devices") and given == device(given.name)
    name = given.name if is_preset else f"{given.name} with figures of its own"
    return RecordedGpu(name, given.memory_bytes, given.units)
