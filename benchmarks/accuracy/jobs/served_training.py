"""One process of a training with a parameter server: rank 0 serves, the others train a small
classifier of Fashion-MNIST. Gradients are pushed and parameters pulled over TCP, or over the
transport. The server prints how long each stretch of steps took, and the accuracy behind it.

    RANK=0 python served_training.py FILE
"""

import gzip
import json
import os
import selectors
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from paceline.wire import Address, Bounds, Endpoint, Group, JobKey, Phase, Server, Worker
from paceline.wire.contenders import Contender

WAIT_S = 120.0
MOMENTUM = 0.9


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
    ways = over_tcp if training.contender.is_tcp else over_wire
    way = ways(training, rank, hosts)
    if rank == 0:
        print(json.dumps(serve(training, model, way)))
    else:
        train(training, model, way, rank)


def serve(training: Training, model: nn.Module, way: Any) -> dict[str, Any]:
    images, labels = loaded(training.data, "t10k")
    weights = flat(model)
    moving, total = np.zeros_like(weights), np.zeros_like(weights)
    seconds, accuracies, elapsed = [], [], 0.0
    for step in range(1, training.steps + 1):
        began = time.perf_counter()
        way.push(total, step)
        np.add(MOMENTUM * moving, total, out=moving)
        weights -= training.rate * moving
        way.pull(weights, step)
        if step > 1:  # the first one waits for everybody's start
            elapsed += time.perf_counter() - began
        if step % training.every == 0:
            unflatten(model, weights)
            with torch.no_grad():
                right = (model(images).argmax(1) == labels).float().mean()
            seconds.append(elapsed)
            accuracies.append(float(right))
    return {"seconds": seconds, "accuracies": accuracies, **way.told()}


def train(training: Training, model: nn.Module, way: Any, rank: int) -> None:
    images, labels = loaded(training.data, "train")
    draw = torch.Generator().manual_seed(1000 * training.seed + rank)
    weights = flat(model)
    for step in range(1, training.steps + 1):
        rows = torch.randint(len(images), (training.batch,), generator=draw)
        model.zero_grad()
        nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
        share = 1 / (training_workers() * 1.0)
        gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        way.push((gradient * share).numpy(), step)
        way.pull(weights, step)
        unflatten(model, weights)


def training_workers() -> int:
    return int(os.environ["WORLD_SIZE"]) - 1


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


def over_wire(training: Training, rank: int, hosts: Sequence[str]) -> Any:
    return Wired(training, rank, hosts)


class Wired:
    """Both ways over the transport: what may be lost is lost on the way to the server alone."""

    def __init__(self, training: Training, rank: int, hosts: Sequence[str]) -> None:
        contender = training.contender
        tuning = contender.tuning(training.link_bits_per_s, training.window_bytes)
        job = JobKey(training.seed, bytes(range(16)))
        self._endpoint = Endpoint(rank, job, Address(hosts[rank], training.port), tuning)
        peers = range(1, len(hosts)) if rank == 0 else [0]
        self._endpoint.connect({p: Address(hosts[p], training.port) for p in peers}, WAIT_S)
        self._group = Group(self._endpoint, range(len(hosts)), Bounds(contender.budget))
        half: Any = Server(self._group) if rank == 0 else Worker(self._group)
        self._half = half

    def push(self, values: np.ndarray, step: int) -> None:
        self._half.push(values, step=step)

    def pull(self, values: np.ndarray, step: int) -> None:
        self._half.pull(values, step=step)

    def told(self) -> dict[str, Any]:
        lost = self._group.ledger.lost_share(Phase.PUSH)
        return {"lost_share": lost, "counters": self._endpoint.counters}


def over_tcp(training: Training, rank: int, hosts: Sequence[str]) -> Any:
    return TcpServer(training, len(hosts) - 1) if rank == 0 else TcpWorker(training, hosts[0])


def tcp(training: Training) -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    name = training.contender.congestion.encode()
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


class TcpServer:
    """Reads from all workers at once, and writes to all at once."""

    def __init__(self, training: Training, workers: int) -> None:
        with tcp(training) as server:
            server.bind(("", training.port))
            server.listen(workers)
            server.settimeout(WAIT_S)
            self._links = [server.accept()[0] for _ in range(workers)]
        for link in self._links:
            link.setblocking(False)
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def push(self, total: np.ndarray, step: int) -> None:
        rooms = [np.empty_like(total) for _ in self._links]
        self._all([memoryview(room).cast("B") for room in rooms], selectors.EVENT_READ)
        np.sum(rooms, axis=0, out=total)

    def pull(self, weights: np.ndarray, step: int) -> None:
        self._all([memoryview(weights).cast("B")] * len(self._links), selectors.EVENT_WRITE)

    def _all(self, views: list[memoryview], way: int) -> None:
        left = dict(zip(self._links, views))
        with selectors.DefaultSelector() as waiting:
            for link in left:
                waiting.register(link, way)
            while left:
                for key, _ in waiting.select(WAIT_S):
                    link: Any = key.fileobj
                    view = left[link]
                    read = way == selectors.EVENT_READ
                    left[link] = view[link.recv_into(view) if read else link.send(view) :]
                    if not len(left[link]):
                        waiting.unregister(link)
                        del left[link]

    def told(self) -> dict[str, Any]:
        return {"lost_share": 0.0, "counters": {}}


class TcpWorker:
    def __init__(self, training: Training, server: str) -> None:
        end = time.monotonic() + WAIT_S
        while True:
            self._link = tcp(training)
            try:
                self._link.connect((server, training.port))
                return
            except ConnectionRefusedError:
                self._link.close()
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def push(self, values: np.ndarray, step: int) -> None:
        self._link.sendall(memoryview(values).cast("B"))

    def pull(self, weights: np.ndarray, step: int) -> None:
        view = memoryview(weights).cast("B")
        while len(view):
            view = view[self._link.recv_into(view) :]


if __name__ == "__main__":
    main(sys.argv[1])
