"""Steps of a data-parallel job with the recorder's counters and pulse, and without, in turn.

    torchrun --nproc-per-node 2 benchmarks/overhead/jobs/pulse.py --out FOLDER --steps 300

Steps come in pairs, of which one, drawn at random and alike on all ranks, has them. Each rank
writes one JSON row per step: whether the instruments were on, CPU and wall nanoseconds from border
to border, and the wall nanoseconds that they themselves took.
"""

import argparse
import json
import random
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "examples"))

from paceline.machine import PulseTaker  # noqa: E402
from paceline.machine.pulse import SHARE  # noqa: E402
from paceline.record.counters import CountDetail, Counters  # noqa: E402
from paceline.record.held import HeldSteps  # noqa: E402
from paceline.record.sidecar import Mode, Record, Step, encode  # noqa: E402
from paceline.record.torch_patch import Patches  # noqa: E402
from train import prepare  # noqa: E402

SETTLING = 10
JOB = {"model": "mlp", "parallel": "ddp", "batch": 64, "bucket_mb": 5.0, "accumulate": 1,
       "micro_batches": 1, "hook": "none", "compile": False, "threads": 1, "seed": 1}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()
    step, rank = prepare(argparse.Namespace(**JOB)), dist.get_rank()
    for _ in range(SETTLING):
        step()
    with (options.out / f"written.{rank}").open("wb", buffering=0) as file:
        rows = measured(step, options.steps, rank, file)
    (options.out / f"rows.{rank}.json").write_text(json.dumps(rows))
    dist.barrier()
    del step
    dist.destroy_process_group()
    time.sleep(0.2)  # else the interpreter may be gone before gloo's threads let go of its objects


def measured(step: Any, steps: int, rank: int, file: Any) -> list[list[int]]:
    """Of each two steps one is watched and the other is not."""
    pulses = PulseTaker(SHARE / 2) if rank == 0 else None  # half of the time is theirs
    counters = Counters(pulses=pulses)
    counters.find_threads()
    choose, watched = random.Random(7), timed(step, counters, file)
    rows = []
    for on in (on for _ in range(steps // 2) for on in choose.sample((True, False), 2)):
        cpu, wall = time.process_time_ns(), time.perf_counter_ns()
        spent = watched() if on else bare(step)
        wall, cpu = time.perf_counter_ns() - wall, time.process_time_ns() - cpu
        rows.append([on, cpu, wall, spent])
    write(file, *counters.times())
    return rows


def bare(step: Any) -> int:
    step()
    return 0


def timed(step: Any, counters: Counters, file: Any) -> Any:
    """A step between its borders, with marks around its backward pass; what they took in ns."""

    watching: set[bool] = set()
    held = HeldSteps(partial(write, file))
    Patches().wrap(torch.autograd, "backward", lambda given: marked(given, counters, watching))

    def watched() -> int:
        begin = time.perf_counter_ns()
        write(file, counters.begin(CountDetail.PHASES))
        spent = time.perf_counter_ns() - begin
        watching.add(True)
        step()
        watching.clear()
        begin = time.perf_counter_ns()
        held.hold(partial(Step, 0, begin, begin, Mode.PLAIN), counters.end())
        return spent + time.perf_counter_ns() - begin

    return watched


def write(file: Any, *records: Record | None) -> None:
    if told := [encode(record) for record in records if record is not None]:
        file.write(b"".join(told))


def marked(original: Any, counters: Counters, watching: set[bool]) -> Any:
    def call(*args: Any, **given: Any) -> Any:
        if watching:
            counters.mark()
        result = original(*args, **given)
        if watching:
            counters.mark()
        return result

    return call


if __name__ == "__main__":
    main()
