"""`Backend`: the contract of what runs programs on real workers.

Each worker process asks the back end whether it can (`refusal`), lets it hold the worker's parts
of the program's inputs (`compile` -> `Executable.buffers`), then calls `run` once a step. A back
end that cannot run a program says why; it never runs another one in its place unasked.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paceline.weave.layout import Group
from paceline.weave.program import Program

Tunables = Mapping[str, int | float | str | bool]
"""Settings of a back end by name: chunk bytes, unroll factor, ... JSON-able."""

Buffers = Mapping[str, Any]
"""This worker's parts by name: torch tensors of `TensorType.local_shape`."""


@dataclass(frozen=True)
class Peers:
    """Who works together: this worker's global rank and, for each group of the program, the
    torch process group that carries it (None: the default one)."""

    rank: int
    process_groups: Mapping[Group, Any]

    def index(self, group: Group) -> int | None:
        """This worker's index in a group, or None outside it."""
        return group.ranks.index(self.rank) if self.rank in group.ranks else None


class Executable(ABC):
    """A compiled program on one worker."""

    @property
    @abstractmethod
    def buffers(self) -> Buffers:
        """The inputs (not scalars), to be filled and read by the caller; updates land here."""

    @abstractmethod
    def run(self, scalars: Mapping[str, float]) -> Buffers:
        """One execution, with every peer; returns this worker's parts of the program's returns."""

    @abstractmethod
    def close(self) -> None:
        """Give back shared memory, files and threads."""


class Backend(ABC):
    """One way to run programs."""

    name: str
    shares_memory: bool = False  # do ranks read each other's memory, so that no wire is crossed?
    fuses: bool = False  # does it run a kernel as one launch, or its statements one by one?
    overlaps: bool = False  # does it run overlapped pairs side by side?

    @abstractmethod
    def capabilities(self) -> str | None:
        """None where this machine can run it, else the reason why not."""

    @abstractmethod
    def refusal(self, program: Program) -> str | None:
        """None where it can run this program, else the reason why not."""

    @abstractmethod
    def tunables(self, program: Program) -> tuple[Tunables, ...]:
        """Settings worth trying, the default first."""

    @abstractmethod
    def compile(
        self, program: Program, peers: Peers, tunables: Tunables, buffers: Buffers | None = None
    ) -> Executable:
        """Make it ready on this worker, collectively. `buffers`: where the caller already holds
        inputs; a back end that needs them elsewhere (shared memory) refuses them."""
