"""The fused step against gloo's all-reduce plus torch's fused optimizer, interleaved.

Every row runs the same step on the same tensors in turn: A all-reduce of the flat gradient and
torch.optim (Adam `fused=True`, gradients as views of one buffer: as its users would tune it);
B our own schedule in three kernels; C the fused kernel. The bound is the bytes that the step must
move over the highest bandwidth that the same workers reach on this machine: copies, and the very
streams of the step with nothing but additions, in the fastest of all rounds. A virtual machine's
bandwidth may halve while it is measured; `bound_share_by_round` is the median of the shares that
each round reaches of its own bandwidth.

    python benchmarks/speed/fused_step.py --json
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks import measure

MIB = 2**20
# (optimizer, tensors, elements of each, workers); the first is the headline
ROWS = (
    ("adam", 1, 2**24, 2),
    ("adam", 64, MIB // 4, 2),
    ("lamb", 1, 2**24, 2),
    ("lamb", 64, MIB // 4, 2),
    ("adam", 1, 2**24, 4),
    ("lamb", 1, 2**24, 4),
)
KEYS = ("vs_fused_adam", "vs_own_rs_c_ag", "bound_share", "bound_share_by_round")


def main(arguments: list[str] | None = None) -> None:
    parser = measure.parser(__doc__.splitlines()[0])
    parser.add_argument("--worker", nargs=6, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        worker(*options.worker)
        return
    rounds = 5 if options.quick else 30
    rows = [run_row(row, rounds) for row in (ROWS[1:2] if options.quick else ROWS)]
    figures = {name: rows[0][name] for name in KEYS}
    measure.report("speed/fused_step", {**figures, "rows": rows}, options, "torch")


def run_row(row: tuple[str, int, int, int], rounds: int) -> dict[str, Any]:
    """Start the workers of one row; what rank 0 found."""
    name, tensors, elements, workers = row
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--worker", name, str(tensors), str(elements)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        started = [
            subprocess.Popen([*command, f"{rank}/{workers}", str(rounds), folder], env=environment)
            for rank in range(workers)
        ]
        if any(process.wait() for process in started):
            raise SystemExit(f"a worker of {row} failed; its error stands above")
        found = json.loads(Path(folder, "result.json").read_text())
    return {"optimizer": name, "tensors": tensors, "elements": elements, "workers": workers} | found


def worker(name: str, tensors: str, elements: str, place: str, rounds: str, folder: str) -> None:
    import torch
    import torch.distributed as dist

    rank, workers = (int(x) for x in place.split("/"))
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=workers
    )
    candidates = made(name, (int(elements),) * int(tensors), rank, workers)
    samples: dict[str, list[float]] = {key: [] for key in candidates}
    for turn in range(int(rounds) + 3):
        for key, step in candidates.items():
            seconds = timed(step)
            if turn >= 3:
                samples[key].append(seconds)
    if rank == 0:
        size = int(tensors) * int(elements)
        Path(folder, "result.json").write_text(json.dumps(figures(name, size, workers, samples)))
    dist.barrier()
    dist.destroy_process_group()


def timed(step: Callable[[], None]) -> float:
    """Seconds from a common start until the slowest worker is done."""
    import time

    import torch
    import torch.distributed as dist

    dist.barrier()
    began = time.perf_counter()
    step()
    took = torch.tensor(time.perf_counter() - began, dtype=torch.float64)
    dist.all_reduce(took, dist.ReduceOp.MAX)
    return float(took)


def made(
    name: str, segments: tuple[int, ...], rank: int, workers: int
) -> dict[str, Callable[[], None]]:
    """The candidates, each ready to take one step."""
    from paceline.weave.backend import Peers
    from paceline.weave.backends import backend
    from paceline.weave.layout import Group
    from paceline.weave.programs import adam, lamb
    from paceline.weave.schedules import fully_fused, in_three

    group = Group.world(workers)
    peers, cpu = Peers(rank, {group: None}), backend("cpu")
    size = sum(segments)
    program = adam(size, group) if name == "adam" else lamb(segments, group)
    pair = (streams(size, group), copies(size, group))
    programs = {
        "own_rs_c_ag": in_three(program),
        "fused": fully_fused(program),
        **{p.name: p for p in pair},
    }
    found: dict[str, Callable[[], None]] = {"gloo_and_torch": torch_step(name, segments, workers)}
    for key, wanted in programs.items():
        executable = cpu.compile(wanted, peers, cpu.tunables(wanted)[0])
        for tensor in executable.buffers.values():
            tensor.uniform_(0.1, 1.0)
        found[key] = stepper(executable)
    return found


def stepper(executable: Any) -> Callable[[], None]:
    count = 0

    def step() -> None:
        nonlocal count
        count += 1
        executable.run({"lr": 1e-3, "t": float(count)})

    return step


def streams(size: int, group: Any) -> Any:
    """Adam's reads and writes with additions only: what its memory traffic alone costs."""
    from paceline.weave.language import AllReduce, Update, program, tensor
    from paceline.weave.layout import Partial, Replicated
    from paceline.weave.ops import Role
    from paceline.weave.schedules import fully_fused

    g = tensor("g", (size,), Partial(), group, role=Role.GRADIENT)
    w = tensor("w", (size,), Replicated(), group, role=Role.PARAMETER)
    m, v = (tensor(n, (size,), Replicated(), group, role=Role.STATE) for n in "mv")
    total = AllReduce(g)
    m1, v1 = Update(m, m + total), Update(v, v + total)
    return fully_fused(program("streams", Update(w, w + m1 + v1), m1, v1))


def copies(size: int, group: Any) -> Any:
    """Each element read once and written once to every worker's copy."""
    from paceline.weave.language import Update, program, tensor
    from paceline.weave.layout import Sliced
    from paceline.weave.ops import Role

    a = tensor("a", (size,), Sliced(0), group)
    b = tensor("b", (size,), Sliced(0), group, role=Role.STATE)
    return program("copies", Update(b, a + 0.0))


def torch_step(name: str, segments: tuple[int, ...], workers: int) -> Callable[[], None]:
    """All-reduce of the flat gradient in DDP's 25 MiB buckets, then the tuned torch optimizer."""
    import torch
    import torch.distributed as dist

    from paceline.weave.torch_lamb import Lamb

    flat = torch.rand(sum(segments))
    parameters = [torch.nn.Parameter(torch.rand(n)) for n in segments]
    for p, gradient in zip(parameters, flat.split(list(segments))):
        p.grad = gradient
    optimizer = torch.optim.Adam(parameters, fused=True) if name == "adam" else Lamb(parameters)
    buckets = flat.split(25 * MIB // 4)

    def step() -> None:
        waiting = [dist.all_reduce(bucket, async_op=True) for bucket in buckets]
        for work in waiting:
            work.wait()
        flat.div_(workers)
        optimizer.step()

    return step


def figures(name: str, size: int, workers: int, samples: dict[str, list[float]]) -> dict[str, Any]:
    """Medians with spread, ratios round by round, and the bound."""
    spreads = {key: measure.spread([1e3 * s for s in found]) for key, found in samples.items()}
    adam_bytes = 4 * (2 * workers + 5)
    step_bytes = adam_bytes if name == "adam" else 4 * (2 * workers + 8)
    rates = [
        max(adam_bytes * size / streams, 8 * size / copies)
        for streams, copies in zip(samples["streams"], samples["copies"])
    ]
    bandwidth = max(rates)
    bound_ms = 1e3 * step_bytes * size / bandwidth
    shares = [step_bytes * size / r / s for r, s in zip(rates, samples["fused"])]
    return {
        "vs_fused_adam": ratio(samples["gloo_and_torch"], samples["fused"]),
        "vs_own_rs_c_ag": ratio(samples["own_rs_c_ag"], samples["fused"]),
        "bound_share": bound_ms / spreads["fused"]["median"],
        "bound_share_by_round": sorted(shares)[len(shares) // 2],
        "bound_ms": bound_ms,
        "bandwidth_gb_per_s": bandwidth / 1e9,
        "bytes_per_parameter": step_bytes,
        "ms": spreads,
    }


def ratio(slow: list[float], fast: list[float]) -> float:
    """Median of the ratios of neighbouring runs: drift of the machine cancels."""
    return sorted(a / b for a, b in zip(slow, fast))[len(fast) // 2]


if __name__ == "__main__":
    main()
