"""A workload of the suite, its memory counted: suite_memory.py NAME BATCH OUT.

Every block that torch's allocator gives out from before the model is built, by the profiler's
memory events. At the ends of two updates, and where each backward pass begins, the moments are
noted; model, gradients and optimizer state are counted tensor by tensor.
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

from paceline.bench import Setup, named

STEPS = 6


def main() -> None:
    name, batch, out = sys.argv[1:]
    torch.manual_seed(1)
    torch.set_num_threads(1)
    seen = Seen()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=False) as told:
        training = named(name).build(Setup(int(batch)))
        seen.built_ns = time.time_ns()
        for _ in range(STEPS):
            training.step(next(training.batches))
    trace = Path(out).with_suffix(".trace")
    told.export_chrome_trace(str(trace))
    Path(out).write_text(json.dumps(seen.told(curve(json.loads(trace.read_text())))))
    trace.unlink()


class Seen:
    """Moments of the last step, and what stood at its end."""

    def __init__(self) -> None:
        self.built_ns = 0
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

    def told(self, allocated: list[tuple[int, int]]) -> dict[str, int]:
        begin, end = self.borders[-2:]
        data = at(allocated, self.built_ns) - self.sizes["weights"]
        inside = [size for moment, size in allocated if begin <= moment <= end]
        found = {"peak": max([*inside, at(allocated, begin)]) - data, **self.sizes}
        passes = [moment for moment in self.backwards if begin < moment < end]
        if len(passes) == 1:
            standing = data + self.sizes["weights"] + self.sizes["optimizer"]
            found["activations"] = at(allocated, passes[0]) - standing
        return found


def held(tensors: Iterable[Any]) -> int:
    """Of their storages, each once."""
    found = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return sum(found.values())


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
