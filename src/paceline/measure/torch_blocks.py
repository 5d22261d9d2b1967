"""What FSDP2 spends of the training thread on a block, beside its collectives.

Two workers train a chain of blocks, each a product that takes a while and some small weights,
plainly and cut by FSDP2, and run collectives of the same sizes by themselves. Messages of small
weights cost little, so that what is left is PyTorch's host, after the rests that its calls leave.
"""

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.distributed.device_mesh import DeviceMesh

BLOCKS, WIDTH, ROWS, WORK = 8, 16, 8, 256
WEIGHTS = (1, 8)
"""In a block: what is between the two tells what each weight takes."""
TURNS = 20
WARM = 3

Times = tuple[float, float]
"""Seconds of the thread for a block: of passes forward and backward, or of its calls that gather
and reduce."""


def sharded_blocks(group: ProcessGroup) -> dict[str, dict[str, list[Times]]]:
    """By weights in a block and by way, `plain`, `cut` and `calls`, in turns. All of the group call
    it."""
    torch.set_num_threads(1)
    mesh = DeviceMesh.from_group(group, "cpu")
    return {str(weights): _in_turns(weights, mesh, group) for weights in WEIGHTS}


def _in_turns(weights: int, mesh: DeviceMesh, group: ProcessGroup) -> dict[str, list[Times]]:
    plain, cut = _chain(weights), _cut(_chain(weights), mesh)
    ways: dict[str, Callable[[], Times]] = {
        "plain": lambda: _passes(plain),
        "cut": lambda: _passes(cut),
        "calls": lambda: _calls(weights, group),
    }
    found: dict[str, list[Times]] = {name: [] for name in ways}
    for turn in range(WARM + TURNS):
        for name, run in ways.items():
            dist.barrier(group)
            took = run()
            if turn >= WARM:
                found[name].append(took)
    return found


class _Block(nn.Module):  # type: ignore[misc]
    """Takes and gives two tensors: one for its weights, one for its work."""

    work: Tensor

    def __init__(self, weights: int) -> None:
        super().__init__()
        self.few = nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(weights)))
        self.register_buffer("work", torch.eye(WORK))

    def forward(self, given: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        few, much = given
        return self.few(few), much @ self.work


def _chain(weights: int) -> nn.Sequential:
    return nn.Sequential(*(_Block(weights) for _ in range(BLOCKS)))


def _cut(chain: nn.Sequential, mesh: DeviceMesh) -> nn.Sequential:
    from torch.distributed.fsdp import fully_shard

    for block in (*chain, chain):
        fully_shard(block, mesh=mesh)
    return chain


def _passes(chain: Any) -> Times:
    chain.zero_grad()
    few = torch.ones(ROWS, WIDTH, requires_grad=True)
    much = torch.ones(WORK, WORK, requires_grad=True)
    marks = [time.thread_time()]
    made = chain((few, much))
    total = made[0].sum() + made[1].sum()
    marks.append(time.thread_time())
    total.backward()
    marks.append(time.thread_time())
    forward, backward = (b - a for a, b in pairwise(marks))
    return forward / BLOCKS, backward / BLOCKS


def _calls(weights: int, group: ProcessGroup) -> Times:
    whole = torch.ones(weights * WIDTH * WIDTH)
    part = torch.ones(len(whole) // dist.get_world_size(group))
    marks = [time.thread_time()]
    for _ in range(BLOCKS):
        dist.all_gather_into_tensor(whole, part, group=group)
    marks.append(time.thread_time())
    for _ in range(BLOCKS):
        dist.reduce_scatter_tensor(part, whole, group=group)
    marks.append(time.thread_time())
    gather, reduce = (b - a for a, b in pairwise(marks))
    return gather / BLOCKS, reduce / BLOCKS
