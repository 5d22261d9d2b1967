"""A workload of the suite, its memory in a step counted: suite_memory.py NAME BATCH STEP OUT.

Every block that torch's allocator gives out from before the model is built, by the profiler's
memory events. At the ends of the step's update and of the one before, and where each backward pass
begins, the moments are noted; model, gradients and optimizer state are counted tensor by tensor. So
is the batch where it is no copy of a part of the data set but lies in it.
"""

import gc
import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch.optim import optimizer as torch_optimizer
from torch.profiler import ProfilerActivity, profile

from paceline.bench import Setup, Training, named


def main() -> None:
    name, batch, last, out = sys.argv[1:]
    torch.manual_seed(1)
    torch.set_num_threads(1)
    seen = Seen()
    with profile(
        activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=False
    ) as watched:
        training = named(name).build(Setup(int(batch)))
        seen.built_ns = time.time_ns()
        seen.data = {where(tensor) for tensor in alive()}
        for _ in range(int(last) + 1):
            seen.batch = step(training, seen.data)
    trace = Path(out).with_suffix(".trace")
    watched.export_chrome_trace(str(trace))
    allocated = curve(json.loads(trace.read_text()))
    Path(out).write_text(json.dumps(told(seen, allocated)))
    trace.unlink()


def step(training: Training, data: set[int]) -> int:
    """Train on a batch; how many bytes of it lie in the data set."""
    batch = next(training.batches)
    training.step(batch)
    return held(each for each in tensors_of(batch) if where(each) in data)


class Seen:
    """Moments of the last step, and what stood at its end."""

    def __init__(self) -> None:
        self.built_ns = 0
        self.data: set[int] = set()  # where tensors lie that stay for the whole training
        self.batch = 0  # bytes of the last batch that lie there
        self.borders: list[int] = []  # ends of the first optimizer's updates
        self.backwards: list[int] = []
        self.sizes: dict[str, int] = {}
        self._optimizers: list[Any] = []
        torch_optimizer.register_optimizer_step_post_hook(self._updated)
        original = torch.Tensor.backward

        def backward(tensor: Any, *given: Any, **named: Any) -> None:
            self.backwards.append(time.time_ns())
            original(tensor, *given, **named)

        torch.Tensor.backward = backward

    def _updated(self, optimizer: Any, *_: Any) -> None:
        if optimizer not in self._optimizers:
            self._optimizers.append(optimizer)
        if optimizer is not self._optimizers[0]:
            return
        self.borders.append(time.time_ns())
        groups = [group for each in self._optimizers for group in each.param_groups]
        weights = [p for group in groups for p in group["params"]]
        modules = (each for each in gc.get_objects() if isinstance(each, torch.nn.Module))
        buffers = [buffer for module in modules for buffer in module.buffers()]
        states = [
            s for each in self._optimizers for one in each.state.values() for s in one.values()
        ]
        self.sizes = {
            "weights": held([*weights, *buffers]),
            "gradients": held(p.grad for p in weights if p.grad is not None),
            "optimizer": held(s for s in states if isinstance(s, torch.Tensor)),
        }


def told(seen: Any, allocated: list[tuple[int, int]]) -> dict[str, int]:
    """The step's peak, and what stands at its end."""
    begin, end = seen.borders[-2:]
    data = at(allocated, seen.built_ns) - seen.sizes["weights"] - seen.batch
    inside = [size for moment, size in allocated if begin <= moment <= end]
    found = {"peak": max([*inside, at(allocated, begin)]) - data, **seen.sizes}
    passes = [moment for moment in seen.backwards if begin < moment < end]
    if len(passes) == 1:
        standing = data + seen.sizes["weights"] + seen.sizes["optimizer"]
        found["activations"] = at(allocated, passes[0]) - standing
    return found


def held(tensors: Iterable[Any]) -> int:
    """Of their storages, each once."""
    return sum({where(t): t.untyped_storage().nbytes() for t in tensors}.values())


def where(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())


def alive() -> list[Any]:
    """Every tensor that Python knows and somebody holds."""
    gc.collect()
    return [each for each in gc.get_objects() if isinstance(each, torch.Tensor)]


def tensors_of(batch: Any) -> Iterable[Any]:
    """Of a tensor, of tensors in a row, or of a value with tensors as fields."""
    if isinstance(batch, torch.Tensor):
        return [batch]
    held_by = getattr(batch, "__dict__", {}).values()
    parts = batch if isinstance(batch, (tuple, list)) else held_by
    return [tensor for part in parts for tensor in tensors_of(part)]


def curve(trace: dict[str, Any]) -> list[tuple[int, int]]:
    """Moment and bytes held from then on."""
    base = trace.get("baseTimeNanoseconds", 0)
    events = (e for e in trace["traceEvents"] if e.get("name") == "[memory]")
    return sorted(
        (base + round(1000 * e["ts"]), e["args"]["Total Allocated"])
        for e in events
        if e["args"]["Device Type"] == 0
    )


def at(allocated: list[tuple[int, int]], moment: int) -> int:
    """What is held at the moment."""
    before = [size for when, size in allocated if when <= moment]
    return before[-1] if before else 0


if __name__ == "__main__":
    main()
