"""Our codecs against torch's own DDP hooks, and the threshold against exact top-k.

`vs_torch`: a backward pass under DDP on two gloo workers, with torch's `fp16_compress_hook` and
`powerSGD_hook` and with our codecs at the same settings, step by step in turn in one process pair:
torch's time over ours, the smaller of the rows; a step's time is that of the slower worker.
`vs_torch_by_round` is the median of the ratios of single rounds, in which a machine's drift
cancels. `bound_share` is how much of our time the bytes on the wire alone would take, at the rate
of a plain all-reduce in the same rounds (PowerSGD's wire time is next to nothing).
`threshold_vs_topk`: one thread compresses 4.2 million values; exact top-k is `torch.topk`, as most
codecs have it, and `..._with_refresh` counts the refresh of one step in a hundred in.
`topk_vs_torch`: the same of our own exact top-k.

    python benchmarks/speed/codecs.py --json
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks import measure

WORKERS = 2
WIDTH, LAYERS, BATCH = 1024, 4, 16
VALUES = 4 * 1024 * 1024
RATIO, EVERY = 0.01, 100
RANK = 4
BUCKET_MIB = 64
"""One bucket: of several, torch's PowerSGD hook on gloo hangs: its rounds wait on gloo's threads
and their order differs between ranks."""
WARM = 4  # torch's PowerSGD begins with its third step
PAIRS = {"fp16": "fp16", "powersgd": f"powersgd(rank={RANK})"}
Step = Callable[[], None]


def main(arguments: list[str] | None = None) -> None:
    parser = measure.parser(__doc__.splitlines()[0])
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        worker(*options.worker)
        return
    rows = [shown(row) for row in hooks(8 if options.quick else 60)]
    chosen = shown(choosing(8 if options.quick else 40))
    figures = {
        "vs_torch": min(row["vs_torch"] for row in rows),
        "vs_torch_by_round": min(row["vs_torch_by_round"] for row in rows),
        "threshold_vs_topk": chosen["threshold_vs_topk"],
        "threshold_vs_topk_with_refresh": chosen["threshold_vs_topk_with_refresh"],
        "topk_vs_torch": chosen["topk_vs_torch"],
        "workers": WORKERS,
        "gradient_bytes": 4 * LAYERS * (WIDTH * WIDTH + WIDTH),
        "rows": [*rows, chosen],
    }
    measure.report("speed/codecs", figures, options, "torch")


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """The row, printed as it comes."""
    told = {key: value for key, value in row.items() if isinstance(value, (str, float))}
    print(json.dumps(told), file=sys.stderr, flush=True)
    return row


def hooks(rounds: int) -> Iterator[dict[str, Any]]:
    """A row for each of our codecs beside torch's hook."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--worker", folder, str(rounds)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        started = [
            subprocess.Popen([*command, str(rank)], env=environment) for rank in range(WORKERS)
        ]
        if any(process.wait() for process in started):
            raise SystemExit("a worker failed; its error stands above")
        found = json.loads(Path(folder, "result.json").read_text())
    for name in PAIRS:
        yield compared(name, found)


def compared(name: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """Torch's time over ours."""
    wall, cpu = found["wall"], found["cpu"]
    theirs, ours = wall[f"torch {name}"], wall[name]
    gradients = statistics.median(wall["plain"]) - statistics.median(wall["alone"])
    return {
        "row": name,
        "vs_torch": statistics.median(theirs) / statistics.median(ours),
        "vs_torch_by_round": statistics.median(a / b for a, b in zip(theirs, ours)),
        "bound_share": gradients * found["wire_share"][name] / statistics.median(ours),
        "codec_ns": found["codec_ns"][name],
        "torch_s": measure.spread(theirs),
        "ours_s": measure.spread(ours),
        "plain_s": measure.spread(wall["plain"]),
        "backward_alone_s": measure.spread(wall["alone"]),
        "torch_cpu_s": measure.spread(cpu[f"torch {name}"]),
        "ours_cpu_s": measure.spread(cpu[name]),
    }


def choosing(rounds: int) -> dict[str, Any]:
    """Exact top-k and the threshold on the same values, one thread."""
    import torch

    from paceline.runtime.codecs import Turn
    from paceline.runtime.codecs.torch_sparse import payload_of
    from paceline.runtime.codecs.torch_threshold import Threshold
    from paceline.runtime.codecs.torch_topk import TopK

    torch.set_num_threads(1)
    values = torch.randn(VALUES, generator=torch.Generator().manual_seed(0))
    topk, threshold = TopK(RATIO), Threshold(RATIO, EVERY)
    threshold.compress(values, Turn(0, 0))
    many = topk.many(VALUES, Turn(0, 1))

    def by_torch() -> None:
        payload_of(values, values.abs().topk(many, sorted=False).indices, many)

    times = measure.interleave(
        {
            "torch": by_torch,
            "topk": lambda: topk.compress(values, Turn(0, 1)),
            "threshold": lambda: threshold.compress(values, Turn(0, 1)),
        },
        rounds,
        warmup=3,
    )
    found = {name: statistics.median(one["wall"]) for name, one in times.items()}
    mean = (found["threshold"] * (EVERY - 1) + found["topk"]) / EVERY
    return {
        "row": "threshold",
        "values": VALUES,
        "threshold_vs_topk": found["torch"] / found["threshold"],
        "threshold_vs_topk_with_refresh": found["torch"] / mean,
        "topk_vs_torch": found["torch"] / found["topk"],
        "wall_s": {name: measure.spread(one["wall"]) for name, one in times.items()},
        "cpu_s": {name: measure.spread(one["cpu"]) for name, one in times.items()},
    }


def worker(folder: str, rounds: str, rank: str) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    meeting = f"file://{folder}/meeting"
    dist.init_process_group("gloo", init_method=meeting, rank=int(rank), world_size=WORKERS)
    with ExitStack() as stack:
        sent: dict[str, Any] = {}
        steps = made(stack, sent)
        found = timed(steps, int(rounds))
        counted = {name: each.a_step() for name, each in sent.items()}
    plain = counted["plain"]["wire_bytes"]
    found["wire_share"] = {name: each["wire_bytes"] / plain for name, each in counted.items()}
    found["codec_ns"] = {name: each["codec_ns"] for name, each in counted.items()}
    if int(rank) == 0:
        Path(folder, "result.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


def made(stack: ExitStack, sent: dict[str, Any]) -> dict[str, Step]:
    """The candidates; ours stay applied as long as the stack."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as low

    def torchs(hook: Any, state: Any = None) -> Step:
        model, step = job()
        model.register_comm_hook(state, hook)
        return step

    def ours(name: str, plan: list[str]) -> Step:
        import torch

        import paceline

        model, step = job()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        sent[name] = stack.enter_context(paceline.applied(plan, model, optimizer))
        return step

    state = low.PowerSGDState(None, matrix_approximation_rank=RANK, start_powerSGD_iter=2)
    return {
        "alone": job(False)[1],
        "plain": ours("plain", []),
        "torch fp16": torchs(default_hooks.fp16_compress_hook),
        "fp16": ours("fp16", [PAIRS["fp16"]]),
        "torch powersgd": torchs(low.powerSGD_hook, state),
        "powersgd": ours("powersgd", [PAIRS["powersgd"]]),
    }


def job(shared: bool = True) -> tuple[Any, Step]:
    """A model whose gradients take longer to exchange than to compute, and its backward pass."""
    import torch
    from torch import nn

    torch.manual_seed(1)
    model: Any = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
    if shared:
        model = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=BUCKET_MIB)
    data = torch.randn(BATCH, WIDTH)

    def step() -> None:
        model.zero_grad(set_to_none=False)
        model(data).square().mean().backward()

    return model, step


def timed(steps: Mapping[str, Step], rounds: int) -> dict[str, dict[str, list[float]]]:
    """Seconds from a common start until the slower worker is done, and of its processor."""
    import torch
    import torch.distributed as dist

    found: dict[str, dict[str, list[float]]] = {k: {n: [] for n in steps} for k in ("wall", "cpu")}
    for turn in range(WARM + rounds):
        for name, step in steps.items():
            dist.barrier()
            wall, cpu = time.perf_counter(), time.process_time()
            step()
            took = torch.tensor([time.perf_counter() - wall, time.process_time() - cpu])
            dist.all_reduce(took, dist.ReduceOp.MAX)
            if turn >= WARM:
                found["wall"][name].append(float(took[0]))
                found["cpu"][name].append(float(took[1]))
    return found


if __name__ == "__main__":
    main()
