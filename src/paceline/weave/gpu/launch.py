"""From a generated source to a launch: the module on disk, the numbers, the kernel's arguments."""

import hashlib
import importlib.util
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from paceline.weave import ops
from paceline.weave.backends.torch_compute import TORCH, local
from paceline.weave.compute import ComputeContext
from paceline.weave.gpu.generate import host_numbers
from paceline.weave.gpu.writer import Source
from paceline.weave.layout import slice_bounds
from paceline.weave.program import Program

BLOCK = 1024


def loaded(source: Source, folder: Path) -> Any:
    """The compiled kernel; Triton reads functions from files, so the text is kept in one."""
    place = folder / "triton"
    place.mkdir(parents=True, exist_ok=True)
    name = f"kernel_{hashlib.sha256(source.text.encode()).hexdigest()[:24]}"
    path = place / f"{name}.py"
    if not path.exists():
        draft = path.with_suffix(f".{os.getpid()}.tmp")
        draft.write_text(source.text)
        draft.replace(path)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


@dataclass(frozen=True)
class VectorSlice:
    """One rank's slice of a vector, cut into blocks none of which spans two segments."""

    index: int
    ranks: int
    segments: tuple[int, ...]
    block: int = BLOCK

    @property
    def bounds(self) -> tuple[int, int]:
        return slice_bounds(sum(self.segments), self.ranks, self.index)

    def blocks(self) -> list[tuple[int, int, int]]:
        """(first element within the slice, length, segment) of each block."""
        start, end = self.bounds
        found, first = [], 0
        for segment, length in enumerate(self.segments):
            low, high = max(first, start), min(first + length, end)
            for at in range(low, high, self.block):
                found.append((at - start, min(self.block, high - at), segment))
            first += length
        return found


class Launcher:
    """A rank's launches: where its blocks lie, on its device."""

    def __init__(self, mine: VectorSlice, device: str) -> None:
        self.mine, self._device = mine, device
        table = torch.tensor(mine.blocks(), dtype=torch.int64, device=device).reshape(-1, 3)
        self._firsts, self._lengths, self.segments = (c.contiguous() for c in table.unbind(1))

    def launch(self, kernel: Any, source: Source, given: Mapping[str, Any]) -> dict[str, Any]:
        """Run one kernel; `given` holds its arguments by name, with `_peers` (addresses of every
        rank's buffer), `_own` and `_table` behind them. Returns the partials, one a block."""
        count = len(self.segments)
        parts = {n: torch.zeros(count, device=self._device) for n in source.parts}
        if count:
            names = [f"{n}_peers" for n in source.peers] + [f"{n}_own" for n in source.own]
            names += [*source.numbers, *(f"{n}_table" for n in source.tables)]
            arguments = [*(given[n] for n in names), *parts.values()]
            arguments += [self._firsts, self._lengths, self.segments, self.mine.bounds[0]]
            sizes = {"RANKS": self.mine.ranks, "BLOCK": self.mine.block}
            kernel[(count,)](*arguments, **sizes, enable_fp_fusion=False)  # each op rounds
        return parts


def on_host(program: Program) -> Callable[[Mapping[str, float]], dict[str, float]]:
    """All numbers of a run, from those that the caller passes; in double precision."""
    wanted = host_numbers(program)
    given = [s for s in program.inputs if s.op == ops.Input(ops.Role.SCALAR)]

    def numbers(scalars: Mapping[str, float]) -> dict[str, float]:
        values = {s.name: torch.tensor(scalars[s.name], dtype=TORCH[s.type.dtype]) for s in given}
        for statement in wanted:
            kinds = tuple(program[a].type for a in statement.args)
            operands = [values[a] for a in statement.args]
            values[statement.name] = local(
                statement.op, ComputeContext(statement.type, kinds), *operands
            )
        return {name: value.item() for name, value in values.items()}

    return numbers
