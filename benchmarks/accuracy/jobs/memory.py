"""One worker of a plain DDP job that watches torch's allocator from its first tensor on.

What is counted is every block that torch's allocator gives out on the host, as the profiler's
memory events tell it: from before the model is built, so that their sum is what is held. What is
held at marks between the parts of a step tells the categories: nothing here asks what autograd
saved, or what Paceline thinks of it.

The profiler watches the training thread. A bucket or a flattened buffer whose last holder is a
thread of gloo goes unseen, by chance: so everything is given up within the watch, and blocks that
are not seen to go even then are not counted.
"""

import argparse
import gc
import json
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

import paceline

sys.path.insert(0, str(Path(__file__).parent))
from models import MODELS

BEFORE, UNDER = 4, 4  # steps: buckets are rebuilt and the optimizer's state made; then the change


def main() -> None:
    options = arguments()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    with profile(
        activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=False
    ) as watched:
        marks = trained(options)
    if dist.get_rank() == 0:
        out = Path(options.out)
        watched.export_chrome_trace(str(out.with_suffix(".trace")))
        held = curve(json.loads(out.with_suffix(".trace").read_text()))
        out.write_text(json.dumps(told(held, marks)))
        out.with_suffix(".trace").unlink()
    dist.barrier()
    dist.destroy_process_group()


def trained(options: argparse.Namespace) -> dict[str, int]:
    """Some plain steps, and some under the change; the moments between the last one's parts."""
    marks = {"start": time.time_ns()}
    task = MODELS[options.model]()
    task.model.zero_grad()
    marks["built"] = time.time_ns()
    model = DistributedDataParallel(task.model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(BEFORE):
        step(task, model, optimizer, marks)
    change = paceline.applied([options.change], model, optimizer) if options.change else None
    with change or nullcontext():
        gc.collect()  # entering a plan builds DDP's reducer anew; the old one lies in a cycle
        for _ in range(UNDER):
            step(task, model, optimizer, marks)
    task.model.zero_grad()
    del model, optimizer, change, task  # the reducer before its group, or a worker may abort
    gc.collect()
    return marks


def step(task: Any, model: Any, optimizer: Any, marks: dict[str, int]) -> None:
    marks["begin"] = time.time_ns()
    optimizer.zero_grad()
    marks["cleared"] = time.time_ns()
    loss = task.loss(model(task.inputs), task.targets)
    marks["forward"] = time.time_ns()
    loss.backward()
    del loss
    marks["backward"] = time.time_ns()
    optimizer.step()
    marks["first update"] = marks.get("first update", time.time_ns())
    marks["first backward"] = marks.get("first backward", marks["backward"])
    marks["end"] = time.time_ns()


def curve(trace: dict[str, Any]) -> list[tuple[int, int]]:
    """What was held after each event, of blocks that were seen to come and to go."""
    base = int(trace.get("baseTimeNanoseconds", 0))
    events = sorted(
        (base + round(1000 * e["ts"]), order, e["args"]["Addr"], e["args"]["Bytes"])
        for order, e in enumerate(trace["traceEvents"])
        if e.get("name") == "[memory]" and e["args"]["Device Type"] == 0
    )
    alive: dict[int, tuple[int, int]] = {}
    changes: list[tuple[int, int]] = []
    for at, _, address, delta in events:
        if delta > 0:
            alive[address] = at, delta
        elif address in alive:
            changes += [alive.pop(address), (at, delta)]
    held, found = 0, []
    for at, delta in sorted(changes):
        held += delta
        found.append((at, held))
    return found


def told(held: list[tuple[int, int]], marks: dict[str, int]) -> dict[str, int]:
    """Bytes by what they are for, and the peak of the last step."""

    def at(mark: str) -> int:
        return max(((t, size) for t, size in held if t <= marks[mark]), default=(0, 0))[1]

    inside = [size for t, size in held if marks["begin"] <= t <= marks["end"]]
    optimizer = at("first update") - at("first backward")
    return {
        "peak": max([*inside, at("begin")]),
        "model_and_batch": at("built"),
        "optimizer": optimizer,
        "gradients": at("begin") - at("cleared"),
        "communication": at("cleared") - at("built") - optimizer,
        "activations": at("forward") - at("cleared"),
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--change", default="")
    parser.add_argument("--out", required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
