"""The cores of this machine, and whether some are slower than others."""

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CPUS: Final = Path("/sys/devices/system/cpu")
ALIKE: Final = 1.1
"""Cores whose speeds differ by less are alike: boost bins of one kind of core differ by 5 %."""

_SPEEDS: Final = ("cpu_capacity", "cpufreq/cpuinfo_max_freq")


@dataclass(frozen=True)
class Cores:
    """How many, and of which relative speeds: each kind of core once, the fastest is 1."""

    count: int
    speeds: tuple[float, ...]  # fastest first; empty where the machine does not say

    @property
    def hybrid(self) -> bool:
        return len(self.speeds) > 1


def usable_cores() -> int:
    """How many this process may use; where the system does not say, how many there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The model of this machine's processor, as its maker calls it. Of Arm the system tells numbers
    (`aarch64 0x41 0xd0c`: implementer and part); of others at least the architecture."""
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    parts = [line.partition(":") for line in reversed(lines)]  # the first core's stay
    told = {name.strip(): value.strip() for name, _, value in parts}
    numbers = [told[name] for name in ("CPU implementer", "CPU part") if name in told]
    architecture = platform.machine() or platform.processor()
    return told.get("model name") or " ".join([architecture, *numbers])


def in_words(device: str, cores: int) -> str:
    """A machine as people, the history and calibrations name it."""
    return f"{device or 'unknown processor'}, {cores} cores"


def this_machine() -> str:
    """This one, in the same words as a job that is recorded on it."""
    return in_words(processor(), os.cpu_count() or 0)


def cores_here(cpus: Path = CPUS) -> Cores:
    return Cores(os.cpu_count() or 1, kinds(raw_speeds(cpus)))


def raw_speeds(cpus: Path) -> tuple[int, ...]:
    """What each core says of its speed, in any unit; empty where one does not."""
    folders = sorted(path for path in cpus.glob("cpu[0-9]*") if path.is_dir())
    for name in _SPEEDS:
        if folders and all((folder / name).is_file() for folder in folders):
            return tuple(int((folder / name).read_text()) for folder in folders)
    return ()


def kinds(speeds: tuple[int, ...]) -> tuple[float, ...]:
    """Each kind of core once, relative to the fastest."""
    found: list[int] = []
    for speed in sorted(speeds, reverse=True):
        if not found or found[-1] > ALIKE * speed:
            found.append(speed)
    return tuple(speed / found[0] for speed in found)
