"""From a generated source to a launch: the module on disk, the numbers, the kernel's arguments."""

import hashlib
import importlib.util
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from paceline.weave import cache, ops
from paceline.weave.backends.torch_compute import TORCH, local
from paceline.weave.compute import Step
from paceline.weave.gpu.generate import Source, host_numbers
from paceline.weave.layout import slice_bounds
from paceline.weave.program import Program

BLOCK = 1024


def loaded(source: Source, folder: Path | None = None) -> Any:
    """The compiled kernel; Triton reads functions from files, so the text is kept in one."""
    place = (cache.folder(os.environ) if folder is None else folder) / "triton"
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


def launch(
    kernel: Any,
    source: Source,
    rank: tuple[int, int, int],
    tables: Mapping[str, Any],
    own: Mapping[str, Any],
    numbers: Mapping[str, float],
    block: int = BLOCK,
) -> None:
    """One rank's part. `rank` is (index, ranks, elements); `tables` hold, for each peer argument,
    the addresses of every rank's buffer."""
    index, ranks, size = rank
    start, end = slice_bounds(size, ranks, index)
    if end == start:
        return
    arguments = [tables[n] for n in source.peers] + [own[n] for n in source.own]
    arguments += [numbers[n] for n in source.numbers]
    grid = (-(-(end - start) // block),)
    kernel[grid](*arguments, start, end - start, RANKS=ranks, BLOCK=block)


def on_host(program: Program) -> Callable[[Mapping[str, float]], dict[str, float]]:
    """All numbers of a run, from those that the caller passes; in double precision."""
    wanted = host_numbers(program)
    given = [s for s in program.inputs if s.op == ops.Input(ops.Role.SCALAR)]

    def numbers(scalars: Mapping[str, float]) -> dict[str, float]:
        values = {s.name: torch.tensor(scalars[s.name], dtype=TORCH[s.type.dtype]) for s in given}
        for statement in wanted:
            kinds = tuple(program[a].type for a in statement.args)
            operands = [values[a] for a in statement.args]
            values[statement.name] = local(statement.op, Step(statement.type, kinds), *operands)
        return {name: value.item() for name, value in values.items()}

    return numbers
