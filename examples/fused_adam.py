"""Adam written as a program of computation and communication, run as one fused kernel.

torchrun --nproc-per-node 2 examples/fused_adam.py
"""

import time

import torch
import torch.distributed as dist

# --8<-- what a user writes for fused Adam: from here ...
from paceline import weave
from paceline.weave import Group, Partial, Replicated, Role, Update


def adam(size: int, group: Group, b1: float = 0.9, b2: float = 0.999):
    g = weave.tensor("g", (size,), Partial(), group, role=Role.GRADIENT)
    w = weave.tensor("w", (size,), Replicated(), group, role=Role.PARAMETER)
    m = weave.tensor("m", (size,), Replicated(), group, role=Role.STATE)
    v = weave.tensor("v", (size,), Replicated(), group, role=Role.STATE)
    lr, t = weave.scalar("lr", group), weave.scalar("t", group)
    mean = weave.AllReduce(g) / group.size
    m1 = Update(m, b1 * m + (1 - b1) * mean)
    v1 = Update(v, b2 * v + (1 - b2) * mean * mean)
    step = m1 / (1 - b1**t) / (weave.Sqrt(v1 / (1 - b2**t)) + 1e-8)
    return weave.program("my_adam", Update(w, w - lr * step), m1, v1)


fused = weave.schedule(adam(2**20, Group.world(2)), "fused(RS-C-AG) sharded").program
# --8<-- ... to here


def main() -> None:
    from paceline.weave.backend import Peers
    from paceline.weave.backends import backend

    dist.init_process_group("gloo")
    rank, cpu = dist.get_rank(), backend("cpu")
    run = cpu.compile(fused, Peers(rank, {fused.groups[0]: None}), cpu.tunables(fused)[0])
    torch.manual_seed(rank)
    run.buffers["w"].fill_(1.0)
    for t in range(1, 11):
        run.buffers["g"].copy_(torch.randn(2**20))
        run.run({"lr": 1e-3, "t": float(t)})
    if rank == 0:
        print(fused)
        print(f"mean weight after 10 steps: {run.buffers['w'].mean():.6f}")
    run.close()
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(0.2)  # else the interpreter may be gone before gloo's threads let go of its objects


if __name__ == "__main__":
    main()
