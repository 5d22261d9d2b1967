"""One sandboxed worker: compiles variants, compares them with the interpreter, times them.

`python -m paceline.weave.evolve.sandbox BACKEND RANK RANKS FOLDER DESCRIPTOR`: workers meet in
FOLDER, the judge speaks through the socket of that descriptor. Memory is bounded, so that a
variant cannot take the machine down.
"""

import resource
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from paceline.weave import ops
from paceline.weave.backend import Executable, Peers
from paceline.weave.backends import backend
from paceline.weave.backends.torch_compute import TORCH
from paceline.weave.backends.trial import TOLERANCE, filled, numbers
from paceline.weave.evolve.edits import Variant
from paceline.weave.evolve.judge import Case
from paceline.weave.interpreter import distribute, interpret, split
from paceline.weave.layout import FLOATS, Partial
from paceline.weave.program import Program
from paceline.weave.rules import WeaveError

MEMORY_BYTES = 16 << 30


def main(name: str, rank: int, ranks: int, folder: str, line: Connection) -> None:
    """Answer the judge until it hangs up."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=ranks,
        timeout=timedelta(seconds=180),
    )
    answers: dict[str, Callable[[Any], Any]] = {
        "check": lambda cases: _first_wrong(name, rank, cases),
        "time": lambda wish: _times(name, rank, *wish),
    }
    while True:
        try:
            what, value = line.recv()
        except EOFError:
            return
        line.send(answers[what](value))


def _first_wrong(name: str, rank: int, cases: list[Case]) -> str | None:
    """All ranks go through all cases, so that none waits for another."""
    found = [_wrong(name, rank, case) for case in cases]
    return next((reason for reason in found if reason), None)


def _wrong(name: str, rank: int, case: Case) -> str | None:
    executable = _compiled(name, rank, case.variant)
    if isinstance(executable, str):
        return executable
    program, peers = case.variant.program, _peers(rank, case.variant.program)
    values = held_out(case.written, case.seed, case.odd)
    wanted = interpret(case.written, distribute(case.written, values))
    start = distribute(program, values)
    for key, buffer in executable.buffers.items():
        part = start[key][_index(program, peers, key)]
        buffer.copy_(torch.from_numpy(np.asarray(part)).to(buffer.dtype))
    returned = executable.run({n: float(values[n]) for n in numbers(program)})
    for key, part in {**executable.buffers, **returned}.items():
        expected = split(program[key].type, _given(wanted, case.written, key), key)
        if reason := _differs(program, key, part, expected[_index(program, peers, key)]):
            executable.close()
            return reason
    executable.close()
    return None


def _given(wanted: Any, written: Program, key: str) -> Any:
    """The value of an input or output; the parts themselves where it is Partial."""
    return wanted.parts[key] if isinstance(written[key].type.layout, Partial) else wanted.value(key)


def _differs(program: Program, key: str, part: Any, expected: Any) -> str | None:
    dtype = program[key].type.dtype
    limit = TOLERANCE.get(dtype, 0.0) / 10
    target = torch.from_numpy(np.asarray(expected)).to(TORCH[dtype])
    same = torch.allclose(part, target, rtol=limit, atol=limit, equal_nan=dtype in FLOATS)
    return None if same else f"{key} differs from the program as written"


def held_out(program: Program, seed: int, odd: bool) -> dict[str, Any]:
    """Values that no timing run uses; NaN and infinities where `odd`."""
    rng, found = np.random.default_rng(seed), dict[str, Any]()
    for source in program.inputs:
        kind = source.type
        if source.op == ops.Input(ops.Role.SCALAR):
            found[source.name] = float(rng.integers(1, 9)) if source.name == "t" else 0.125
            continue
        lead = (kind.group.size,) if isinstance(kind.layout, Partial) and kind.group else ()
        made = rng.standard_normal((*lead, *kind.shape))
        if odd and made.size:
            made.flat[rng.integers(0, made.size, 3)] = [np.nan, np.inf, -np.inf]
        found[source.name] = np.abs(made) if source.op == ops.Input(ops.Role.STATE) else made
    return found


def _times(name: str, rank: int, variants: list[Variant], rounds: int) -> list[list[float]]:
    ready: list[Executable] = []
    for variant in variants:
        executable = _compiled(name, rank, variant)
        if isinstance(executable, str):
            raise WeaveError(executable)
        filled(executable, variant.program, _peers(rank, variant.program))
        executable.run(numbers(variant.program))
        ready.append(executable)
    times = [[0.0] * rounds for _ in variants]
    for turn in range(rounds):
        for place, executable in enumerate(ready):
            dist.barrier()
            begin = time.perf_counter()
            executable.run(numbers(variants[place].program))
            times[place][turn] = time.perf_counter() - begin
    for executable in ready:
        executable.close()
    worst = torch.tensor(times, dtype=torch.float64)
    dist.all_reduce(worst, dist.ReduceOp.MAX)
    found: list[list[float]] = worst.tolist()
    return found


def _compiled(name: str, rank: int, variant: Variant) -> Executable | str:
    try:
        peers = _peers(rank, variant.program)
        return backend(name).compile(variant.program, peers, variant.tunables)
    except WeaveError as error:
        return str(error)


def _peers(rank: int, program: Program) -> Peers:
    return Peers(rank, dict.fromkeys(program.groups))


def _index(program: Program, peers: Peers, name: str) -> int:
    group = program[name].type.group
    return 0 if group is None else peers.index(group) or 0


if __name__ == "__main__":
    backend_name, rank_text, ranks_text, meeting, descriptor = sys.argv[1:]
    main(backend_name, int(rank_text), int(ranks_text), meeting, Connection(int(descriptor)))
