"""What imagining a training script tells of one rank: rows of work, groups, memory.

Written by the process that ran the script on tensors without data, read by the one that builds the
graph. Numbers of enums are those of `paceline.graph`.
"""

from pathlib import Path
from typing import Any

import msgspec

from paceline.errors import PacelineError


class ImagineError(PacelineError):
    """A training script cannot be run without data."""


class ImaginedOp(msgspec.Struct, array_like=True):
    """One op. `group` is empty for the rank's own work; `after` are rows it must wait for besides
    the one before it on its lane."""

    name: str
    kind: int  # OpKind
    phase: int  # Phase
    size_bytes: int
    flops: int
    dtype: int  # DType
    step: int
    layer: str = ""
    tensor: str = ""
    collective: int = 0  # Collective
    group: str = ""
    peer: int = -1  # global rank, of a message
    after: list[int] = []
    work: int = -1  # row of `Imagined.works`
    gradients: list[int] = []  # rows that ready the gradients which this collective reduces
    calls: int = 1  # of operators since the row before, views and this one among them
    read_after: int = -1  # row at which the script read a value of a tensor before this one


class MemoryChange(msgspec.Struct, array_like=True):
    """Bytes that row `row` allocates at its start, or frees (negative) at its end."""

    row: int
    delta_bytes: int
    category: int  # MemoryCategory


class Members(msgspec.Struct, array_like=True):
    """A process group."""

    name: str
    ranks: list[int]
    axis: str = ""


class Trained(msgspec.Struct, array_like=True):
    """A parameter whose gradient DDP reduces, by the name that `ImaginedOp.tensor` has."""

    name: str
    size_bytes: int


class Imagined(msgspec.Struct):
    """One rank's steady steps."""

    rank: int
    world_size: int
    steps: int
    rows: list[ImaginedOp]
    memory: list[MemoryChange]
    groups: list[Members]
    works: dict[str, list[Any]] = {}  # what operators worked on, as `graph.work.columns` has it
    notes: list[str] = []
    parameters: list[Trained] = []
    buckets: list[list[str]] = []  # names of parameters that are reduced together
    gpu: bool = False  # a host launches the work
    channels_last: bool = False  # of images


class ImagineResult(msgspec.Struct):
    """What the script's process leaves: a rank's steps, or why there are none."""

    imagined: Imagined | None = None
    error: str = ""


def write(result: ImagineResult, path: Path) -> None:
    path.write_bytes(msgspec.json.encode(result))


def read(path: Path) -> ImagineResult:
    return msgspec.json.decode(path.read_bytes(), type=ImagineResult)
