"""What every workload's script does: join the workers, build, train, and say how it went.

    python -m paceline.bench.workloads.torch_gnn --quality
    torchrun --nproc-per-node 2 -m paceline.bench.workloads.torch_dlrm --steps 50

Without `--quality` it trains so many steps; with it until the workload's target is reached. It
knows nothing of recordings: `paceline record` wraps it like any script.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.distributed as dist

from paceline.bench.memory_limit import DOES_NOT_FIT, is_out_of_memory, limit_memory
from paceline.bench.workload import Setup, Training, Workload
from paceline.launch.torch_parting import part


@dataclass(frozen=True)
class Ended:
    """How a training went, as its first worker saw it."""

    workload: str
    workers: int
    batch: int  # of each worker
    steps: int
    seconds: float  # from the first step on, looks at the quality included
    loss: float  # of the last step
    quality: float
    reached: bool


def train(workload: Workload) -> None:
    """The script of a workload."""
    options = _options(workload)
    torch.set_num_threads(options.threads)
    limit_memory(options.memory_limit)
    setup = _joined(options)
    try:
        torch.manual_seed(setup.seed)
        training = workload.build(setup)
        if options.quality:
            _say(to_quality(workload, setup, training), workload, options.out)
        else:
            _steps(training, options)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        print(f"{workload.name} with batches of {setup.batch} does not fit: {error}",
              file=sys.stderr)  # fmt: skip
        os._exit(DOES_NOT_FIT)  # other workers wait for this one, so nothing can end in good order
    del training
    _left()


def to_quality(workload: Workload, setup: Setup, training: Training) -> Ended:
    """Train until the target is reached, or as long as the workload's pace allows."""
    begin, pace, quality, loss, step = time.perf_counter(), workload.pace, 0.0, 0.0, 0
    while step < pace.steps:
        for _ in range(pace.every):
            loss = training.step(next(training.batches))
        step += pace.every
        quality = _of_first(training.score())
        if workload.quality.reached(quality):
            break
    seconds = time.perf_counter() - begin
    reached = workload.quality.reached(quality)
    return Ended(workload.name, setup.workers, setup.batch, step, seconds, float(loss), quality,
                 reached)  # fmt: skip


def _steps(training: Training, options: argparse.Namespace) -> None:
    times = []
    for _ in range(options.steps):
        wall, cpu = time.perf_counter_ns(), time.process_time_ns()
        training.step(next(training.batches))
        times.append((time.perf_counter_ns() - wall, time.process_time_ns() - cpu))
    if options.times:
        rank = os.environ.get("RANK", "0")
        Path(f"{options.times}.{rank}").write_text(json.dumps(times))


def _options(workload: Workload) -> argparse.Namespace:
    target = f"{workload.quality.metric} {workload.quality.target:g}"
    words = f"{workload.domain.value}: {workload.model}, on {workload.data}"
    parser = argparse.ArgumentParser(description=words)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=workload.pace.batch, help="of each worker")
    parser.add_argument("--quality", action="store_true", help=f"train to {target}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="of each worker")
    parser.add_argument("--data", type=Path, help="a folder that holds `fashion-mnist`")
    parser.add_argument("--memory-limit", type=int, default=0, metavar="BYTES",
                        help="that a worker may take for its training")  # fmt: skip
    parser.add_argument("--out", type=Path, help="keep how it went as JSON")
    parser.add_argument("--times", help="write the steps' wall and CPU ns to FILE.<rank>")
    return parser.parse_args()


def _joined(options: argparse.Namespace) -> Setup:
    """This worker's part; alone where torchrun did not start it."""
    if "RANK" not in os.environ:
        return Setup(options.batch, seed=options.seed, data=options.data)
    dist.init_process_group("gloo")
    return Setup(
        options.batch,
        rank=dist.get_rank(),
        workers=dist.get_world_size(),
        seed=options.seed,
        data=options.data,
    )


def _left() -> None:
    if dist.is_initialized():
        dist.barrier()
        part()


def _of_first(value: float) -> float:
    """The first worker's value on all of them, so that they end together."""
    if not dist.is_initialized():
        return value
    told = torch.tensor([value], dtype=torch.float64)
    dist.broadcast(told, 0)
    return float(told)


def _say(ended: Ended, workload: Workload, out: Path | None) -> None:
    if os.environ.get("RANK", "0") != "0":
        return
    quality = workload.quality
    print(
        f"{ended.workload}: {quality.metric} {ended.quality:.4g} after {ended.steps} steps and "
        f"{ended.seconds:.1f} s; target {quality.target:g} "
        f"{'reached' if ended.reached else 'not reached'}"
    )
    if out is not None:
        out.write_text(json.dumps(asdict(ended)))
