"""Which cores to pin instances to: neighbours of one memory node together, physical cores first."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from paceline.serve.errors import ServeError

SYSTEM: Final = Path("/sys/devices/system")


@dataclass(frozen=True)
class Topology:
    """The processors that we may use, in the order in which they are given to instances."""

    processors: tuple[int, ...]
    physical: int  # how many cores they are; two processors of one core share its units
    nodes: int  # memory nodes


def topology_here(usable: Sequence[int] | None = None, system: Path = SYSTEM) -> Topology:
    """By what the system says; where it says nothing, every processor is a core of one node."""
    those = sorted(_allowed() if usable is None else usable)
    nodes, cores = _nodes(system), {cpu: _siblings(system, cpu) for cpu in those}
    first_of_core = {min(set(cores[cpu]) & set(those), default=cpu) for cpu in those}

    def order(cpu: int) -> tuple[bool, int, int]:
        return cpu not in first_of_core, nodes.get(cpu, 0), cpu

    found = len({nodes.get(cpu, 0) for cpu in those})
    return Topology(tuple(sorted(those, key=order)), len(first_of_core), found)


def pinned(topology: Topology, threads: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Processors of each instance, none given twice."""
    if sum(threads) > len(topology.processors):
        raise ServeError(
            f"instances of {sum(threads)} threads in all do not fit on the "
            f"{len(topology.processors)} processors that this process may use; give --cores "
            f"{len(topology.processors)} or fewer"
        )
    left, found = list(topology.processors), []
    for count in threads:
        found.append(tuple(left[:count]))
        del left[:count]
    return tuple(found)


def _allowed() -> set[int]:
    """Where the system does not say, all there are."""
    if sys.platform == "linux":
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _siblings(system: Path, cpu: int) -> tuple[int, ...]:
    """Processors of the same core, itself among them."""
    file = system / f"cpu/cpu{cpu}/topology/thread_siblings_list"
    return numbers(file.read_text()) if file.is_file() else (cpu,)


def _nodes(system: Path) -> dict[int, int]:
    """Memory node of each processor."""
    return {
        cpu: int(folder.name.removeprefix("node"))
        for folder in sorted(system.glob("node/node[0-9]*"))
        for cpu in numbers((folder / "cpulist").read_text())
    }


def numbers(text: str) -> tuple[int, ...]:
    """`0-2,5` is 0, 1, 2, 5."""
    found: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            found += range(int(first), int(last or first) + 1)
    return tuple(found)
