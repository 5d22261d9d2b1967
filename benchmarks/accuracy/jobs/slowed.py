"""One worker of a DDP job into which a known slow-down may be put. It knows nothing of Paceline.

Every slow-down is real work: more multiplications inside one layer, a data set that decodes longer,
other operators, a larger batch, other programs on the cores. What a layer or the input was given
beyond its own work is timed by the job itself, per step, and written beside the steps' lengths.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

sys.path.insert(0, str(Path(__file__).parent))
from models import MODELS, Task

OWN_BATCH = {"mlp": 128, "resnet20": 16, "transformer": 8, "lstm": 16, "wide": 8}
MATRIX = 192  # side of the matrices that extra work multiplies


class Put:
    """What was put into the steps so far, in seconds."""

    def __init__(self) -> None:
        self.steps: list[float] = []
        self.now = 0.0

    @contextmanager
    def timed(self) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self.now += time.perf_counter() - begin

    def next_step(self) -> None:
        self.steps.append(self.now)
        self.now = 0.0


class Batches(Dataset[tuple[Tensor, Tensor]]):
    """The task's batch again and again, decoded anew each time."""

    def __init__(self, task: Task, count: int, decode: Callable[[], None]) -> None:
        self.task, self.count, self.decode = task, count, decode

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        self.decode()
        return self.task.inputs.clone(), self.task.targets


class Double(nn.Module):
    """A linear layer that someone computes in double precision."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = linear.weight, linear.bias

    def forward(self, x: Tensor) -> Tensor:
        return (x.double() @ self.weight.double().t() + self.bias.double()).float()


class HandNorm(nn.Module):
    """A batch norm written by hand, in many small operators."""

    def __init__(self, norm: nn.BatchNorm2d) -> None:
        super().__init__()
        self.weight, self.bias = norm.weight, norm.bias

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean((0, 2, 3), keepdim=True)
        spread = (x - mean).pow(2).mean((0, 2, 3), keepdim=True)
        return (x - mean) / (spread + 1e-5).sqrt() * self.weight[:, None, None] + self.bias[
            :, None, None
        ]


def main() -> None:
    options = arguments()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    put = Put()
    task = MODELS[options.model](batch=round(OWN_BATCH[options.model] * options.batch))
    replaced(task.model, options.replace)
    if options.layer and options.rank in (dist.get_rank(), ALL):
        busier(task.model.get_submodule(options.layer), options.layer_ms, put)
    decode = extra(options.input_ms, put) if options.input_ms else lambda: None
    stop = crowd(options.busy) if dist.get_rank() == 0 else lambda: None
    train(task, DataLoader(Batches(task, options.steps, decode), batch_size=None), options, put)
    stop()
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(0.2)  # gloo's threads let go of their objects before the interpreter is gone


def train(
    task: Task, loader: "DataLoader[tuple[Tensor, Tensor]]", options: argparse.Namespace, put: Put
) -> None:
    model = DistributedDataParallel(task.model, bucket_cap_mb=options.bucket_mb)
    optimizer = OPTIMIZERS[options.optimizer](model)
    for inputs, targets in loader:
        optimizer.zero_grad()
        task.loss(model(inputs), targets).backward()
        optimizer.step()
        put.next_step()
    if put.steps and options.put:
        path = Path(f"{options.put}-{dist.get_rank()}.json")
        path.write_text(json.dumps({"put_s": put.steps}))
    del model


OPTIMIZERS: dict[str, Callable[[nn.Module], torch.optim.Optimizer]] = {
    "sgd": lambda model: torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9),
    "adamw": lambda model: torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False),
}
ALL = -1


def busier(module: nn.Module, ms: float, put: Put) -> None:
    """The module multiplies some more matrices before its own forward pass, always as many."""
    forward, work = module.forward, extra(ms, put)

    def longer(*args: object, **kwargs: object) -> object:
        work()
        return forward(*args, **kwargs)

    module.forward = longer


def extra(ms: float, put: Put) -> Callable[[], None]:
    """Multiplications that take about so long on a core of one's own."""
    left = torch.randn(MATRIX, MATRIX)
    took = []
    for _ in range(20):
        begin = time.perf_counter()
        torch.mm(left, left)
        took.append(time.perf_counter() - begin)
    count = max(1, round(ms / 1e3 / statistics.median(took)))

    def work() -> None:
        with put.timed(), torch.no_grad():
            for _ in range(count):
                torch.mm(left, left)

    return work


def replaced(model: nn.Module, what: str) -> None:
    """Operators exchanged for others that compute the same."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if what == "linear" and type(child) is nn.Linear:
                setattr(module, name, Double(child))
            if what == "norm" and isinstance(child, nn.BatchNorm2d):
                setattr(module, name, HandNorm(child))


def crowd(count: int) -> Callable[[], None]:
    """Other programs that compute without end beside the workers."""
    others = [multiprocessing.Process(target=_spin, args=(os.getpid(),)) for _ in range(count)]
    for other in others:
        other.start()

    def stop() -> None:
        for other in others:
            other.terminate()
            other.join()

    return stop


def _spin(parent: int) -> None:
    while os.getppid() == parent:
        sum(range(100_000))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--steps", type=int, default=34)
    parser.add_argument("--bucket-mb", type=float, default=25.0)
    parser.add_argument("--batch", type=float, default=1.0, help="times the model's own")
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="sgd")
    parser.add_argument("--replace", choices=("none", "linear", "norm"), default="none")
    parser.add_argument("--layer", default="", help="path of the module that is given more work")
    parser.add_argument("--layer-ms", type=float, default=0.0)
    parser.add_argument("--rank", type=int, default=ALL, help="that is given it; -1: all")
    parser.add_argument("--input-ms", type=float, default=0.0)
    parser.add_argument("--busy", type=int, default=0, help="other programs beside the workers")
    parser.add_argument("--put", default="", help="where to write what was put in")
    return parser.parse_args()


if __name__ == "__main__":
    main()
