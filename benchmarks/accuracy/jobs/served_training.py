"""One process of a training with a parameter server: rank 0 serves, the others train a small
classifier of Fashion-MNIST. Gradients are pushed and parameters pulled over TCP, over gloo, or over
the transport. The server prints how long each stretch of steps took, the accuracy behind it, and
when in a mean step the first part and all of the gradients had come.

    RANK=0 python served_training.py FILE
"""

import gzip
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))
from paceline.wire import (
    Address,
    Bounds,
    Endpoint,
    JobKey,
    PushPullWorker,
    Server,
    TransferPhase,
    WireGroup,
)
from paceline.wire.contenders import Contender
from paceline.wire.incast import importance
from paceline.wire.torch_gloo import Seat, group
from served_gloo import GlooServer, GlooWorker
from served_tcp import PART_VALUES, WAIT_S, TcpServer, TcpWorker, workers

MOMENTUM = 0.9
Update = Callable[[slice], None]


@dataclass(frozen=True)
class Training:
    """What every process is told."""

    contender: Contender
    data: str
    seed: int
    steps: int
    every: int  # steps between two looks at the accuracy
    batch: int
    width: int
    rate: float
    link_bits_per_s: float
    window_bytes: int
    port: int


def main(file: str) -> None:
    told = json.loads(Path(file).read_text())
    training = Training(**{**told, "contender": Contender(**told["contender"])})
    torch.set_num_threads(1)
    torch.manual_seed(training.seed)
    hosts = os.environ["PACELINE_INCAST_HOSTS"].split(",")
    rank = int(os.environ["RANK"])
    model = nn.Sequential(nn.Linear(784, training.width), nn.ReLU(), nn.Linear(training.width, 10))
    way = over(training, rank, hosts)
    if rank == 0:
        print(json.dumps(serve(training, model, way)))
    else:
        train(training, model, way, rank)


def serve(training: Training, model: nn.Module, way: Any) -> dict[str, Any]:
    images, labels = loaded(training.data, "t10k")
    weights = flat(model)
    moving, total = np.zeros_like(weights), np.zeros_like(weights)
    seconds, accuracies, elapsed, trace = [], [], 0.0, Trace()

    def update(part: slice) -> None:
        trace.updated()
        np.add(MOMENTUM * moving[part], total[part], out=moving[part])
        weights[part] -= training.rate * moving[part]

    for step in range(1, training.steps + 1):
        began = time.perf_counter()
        trace.begin(began)
        way.step(total, weights, update, step)
        looks = step % training.every == 0
        if looks:
            way.settle()
        if step > 1:  # the first one waits for everybody's start
            elapsed += time.perf_counter() - began
        if looks:
            unflatten(model, weights)
            with torch.no_grad():
                right = (model(images).argmax(1) == labels).float().mean()
            seconds.append(elapsed)
            accuracies.append(float(right))
    way.settle()
    told = {"lost_share": 0.0, "counters": {}} if training.contender.is_tcp else way.told()
    return {"seconds": seconds, "accuracies": accuracies, **trace.told(), **told}


class Trace:
    """When parts were updated, since their step began; the first step is left out."""

    def __init__(self) -> None:
        self._steps: list[list[float]] = []
        self._began = 0.0

    def begin(self, began: float) -> None:
        self._began = began
        self._steps.append([])

    def updated(self) -> None:
        self._steps[-1].append(time.perf_counter() - self._began)

    def told(self) -> dict[str, float]:
        counted = self._steps[1:] or self._steps
        first, last = (1e3 * sum(step[n] for step in counted) / len(counted) for n in (0, -1))
        return {"first_part_ms": first, "all_pushed_ms": last}


def train(training: Training, model: nn.Module, way: Any, rank: int) -> None:
    images, labels = loaded(training.data, "train")
    draw = torch.Generator().manual_seed(1000 * training.seed + rank)
    weights = flat(model)
    for step in range(1, training.steps + 1):
        rows = torch.randint(len(images), (training.batch,), generator=draw)
        model.zero_grad()
        nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
        gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        way.step((gradient / workers()).numpy(), weights, step)
        unflatten(model, weights)
    way.settle()


def flat(model: nn.Module) -> np.ndarray:
    return torch.cat([p.detach().flatten() for p in model.parameters()]).numpy().copy()


def unflatten(model: nn.Module, weights: np.ndarray) -> None:
    at = 0
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.from_numpy(weights[at : at + p.numel()]).view_as(p))
            at += p.numel()


def loaded(folder: str, part: str) -> tuple[torch.Tensor, torch.Tensor]:
    images, labels = (
        np.frombuffer(gzip.decompress(Path(folder, f"{part}-{name}.gz").read_bytes()), np.uint8)
        for name in ("images-idx3-ubyte", "labels-idx1-ubyte")
    )
    pixels = images[16:].reshape(-1, 784).astype(np.float32) / 255.0
    return torch.from_numpy(pixels), torch.from_numpy(labels[8:].astype(np.int64))


def over(training: Training, rank: int, hosts: Sequence[str]) -> Any:
    if training.contender.gloo:
        return over_gloo(training, rank, hosts)
    return (over_tcp if training.contender.is_tcp else over_wire)(training, rank, hosts)


def over_gloo(training: Training, rank: int, hosts: Sequence[str]) -> Any:
    seat = Seat(rank, len(hosts), hosts[0], training.port)
    return (GlooWorker if rank else GlooServer)(group(seat, training.contender.congestion))


def over_tcp(training: Training, rank: int, hosts: Sequence[str]) -> Any:
    name, port = training.contender.congestion, training.port
    if rank:
        return TcpWorker(name, port, hosts[0])
    part_values = PART_VALUES if training.contender.overlapped else 1 << 40
    return TcpServer(name, port, workers(), part_values)


def over_wire(training: Training, rank: int, hosts: Sequence[str]) -> Any:
    contender = training.contender
    tuning = contender.tuning(training.link_bits_per_s, training.window_bytes)
    job = JobKey(training.seed, bytes(range(16)))
    endpoint = Endpoint(rank, job, Address(hosts[rank], training.port), tuning)
    peers = range(1, len(hosts)) if rank == 0 else [0]
    endpoint.connect({p: Address(hosts[p], training.port) for p in peers}, WAIT_S)
    group = WireGroup(endpoint, range(len(hosts)), Bounds(contender.budget), importance(contender))
    return WiredWorker(group, contender) if rank else WiredServer(group, contender)


class WiredServer:
    """What may be lost is lost on the way to the server alone."""

    def __init__(self, group: WireGroup, contender: Contender) -> None:
        self._half, self._overlapped = Server(group), contender.overlapped
        self.settle = self._half.settle

    def step(self, sums: np.ndarray, values: np.ndarray, update: Update, step: int) -> None:
        if self._overlapped:
            self._half.step(sums, values, update, step=step)
            return
        self._half.push(sums, step=step)
        update(slice(0, len(sums)))
        self._half.pull(values, step=step)

    def told(self) -> dict[str, Any]:
        group = self._half.group
        counters = group.endpoint.counters
        return {"lost_share": group.ledger.lost_share(TransferPhase.PUSH), "counters": counters}


class WiredWorker:
    def __init__(self, group: WireGroup, contender: Contender) -> None:
        self._half, self._overlapped = PushPullWorker(group), contender.overlapped
        self.settle = self._half.settle

    def step(self, gradient: np.ndarray, weights: np.ndarray, step: int) -> None:
        if self._overlapped:
            self._half.step(gradient, weights, step=step)
            return
        self._half.push(gradient, step=step)
        self._half.pull(weights, step=step)


if __name__ == "__main__":
    main(sys.argv[1])
