"""What PyTorch's host spends on products and updates whose weights are DTensors.

A chain of small products is trained with plain weights and, on a mesh of one rank, as tensor
parallelism cuts them: in turn columns and rows. The products are too small to count, and nothing is
sent. What is told is the processor time of the thread.
"""

import time
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

PAIRS, WIDTH, ROWS = 4, 16, 8
TURNS = 30
WARM = 3

Times = tuple[float, float, float]
"""Seconds of a forward pass, of its backward pass and of an update, of one product each."""


def dtensors(group: ProcessGroup) -> dict[str, list[Times]]:
    """By turns; `group` is of this rank alone."""
    torch.set_num_threads(1)
    mesh = DeviceMesh.from_group(group, "cpu")
    chains = {"plain": _chain(), "cut": _cut(_chain(), mesh)}
    optimizers = {
        name: torch.optim.AdamW(c.parameters(), foreach=False) for name, c in chains.items()
    }
    found: dict[str, list[Times]] = {name: [] for name in chains}
    for turn in range(WARM + TURNS):
        for name, chain in chains.items():
            took = _step(chain, optimizers[name])
            if turn >= WARM:
                found[name].append(took)
    return found


def _chain() -> nn.Sequential:
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2 * PAIRS)))


def _cut(chain: nn.Sequential, mesh: DeviceMesh) -> nn.Sequential:
    ways = {str(at): RowwiseParallel() if at % 2 else ColwiseParallel() for at in range(len(chain))}
    parallelize_module(chain, mesh, ways)
    return chain


def _step(chain: nn.Sequential, optimizer: Any) -> Times:
    given = torch.ones(1, ROWS, WIDTH, requires_grad=True)
    optimizer.zero_grad()
    marks = [time.thread_time()]
    made: Tensor = chain(given)
    total = made.sum()
    marks.append(time.thread_time())
    total.backward()
    marks.append(time.thread_time())
    optimizer.step()
    marks.append(time.thread_time())
    forward, backward, update = (b - a for a, b in pairwise(marks))
    count = len(chain)
    return forward / count, backward / count, update / count
