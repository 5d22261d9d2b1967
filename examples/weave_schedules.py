"""Write Adam as one program of all ranks, and let the autotuner choose how these workers run it.

    torchrun --nproc-per-node 2 examples/weave_schedules.py

Prints every schedule with its predicted and measured time, and why the others were refused.
"""

import sys
import time

import torch.distributed as dist
from rich.console import Console

from paceline.report.text.weave import schedules_table
from paceline.weave import (
    AllReduce,
    Group,
    Partial,
    Peers,
    Program,
    Replicated,
    Role,
    Sqrt,
    Update,
    autotune,
    program,
    scalar,
    tensor,
)


def adam(n: int, group: Group, beta1: float = 0.9, beta2: float = 0.999) -> Program:
    g = tensor("g", (n,), Partial(), group, role=Role.GRADIENT)
    w = tensor("w", (n,), Replicated(), group, role=Role.PARAMETER)
    m = tensor("m", (n,), Replicated(), group, role=Role.STATE)
    v = tensor("v", (n,), Replicated(), group, role=Role.STATE)
    lr, t = scalar("lr", group), scalar("t", group)

    mean = AllReduce(g, name="sum_g") / group.size
    m1 = Update(m, beta1 * m + (1 - beta1) * mean)
    v1 = Update(v, beta2 * v + (1 - beta2) * mean * mean)
    root = Sqrt(v1) / Sqrt(1 - beta2**t) + 1e-8
    w1 = Update(w, w - lr / (1 - beta1**t) * m1 / root)
    return program("adam", w1, m1, v1)


def main() -> None:
    dist.init_process_group("gloo")
    group = Group.world(dist.get_world_size())
    elements = int(sys.argv[1]) if len(sys.argv) > 1 else 4_000_000
    tuned = autotune(adam(elements, group), Peers(dist.get_rank(), {group: None}))
    if dist.get_rank() == 0:
        Console().print(schedules_table(tuned.rows))
    dist.destroy_process_group()
    time.sleep(0.2)  # else the interpreter may be gone before gloo's threads let go of its objects


if __name__ == "__main__":
    main()
