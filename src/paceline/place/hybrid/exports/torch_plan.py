"""A decoder trained under a plan by PyTorch alone: FSDP2, tensor parallelism and pipelining.

    torchrun --nproc-per-node 4 torch_plan.py --steps 3

Ranks are laid out as planned: tensor ranks next to one another, then data, then pipeline stages.
On GPUs it runs over NCCL, elsewhere over gloo. Tokens are random but the same for every layout, so
two plans of one model print the same losses. Put your own model's layers in place of `Block` and
your data in place of `batch`; `parallelise` and `train` stay.
"""

import argparse
import math
import os
import time
import zlib
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed._composable.replicate import replicate
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    parallelize_module,
)

# what was planned
PLAN: dict[str, Any] = {}
MODEL: dict[str, Any] = {}
# end of what was planned


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        hidden, size = MODEL["hidden"], MODEL["head_dim"]
        self.size = size
        self.query = nn.Linear(hidden, MODEL["heads"] * size, bias=False)
        self.key = nn.Linear(hidden, MODEL["kv_heads"] * size, bias=False)
        self.value = nn.Linear(hidden, MODEL["kv_heads"] * size, bias=False)
        self.out = nn.Linear(MODEL["heads"] * size, hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, _ = x.shape
        q, k, v = (one(x).view(b, s, -1, self.size).transpose(1, 2)
                   for one in (self.query, self.key, self.value))  # fmt: skip
        found = F.scaled_dot_product_attention(rotated(q), rotated(k), v, is_causal=True,
                                               enable_gqa=q.shape[1] != k.shape[1])  # fmt: skip
        return self.out(found.transpose(1, 2).reshape(b, s, -1))


def rotated(x: torch.Tensor) -> torch.Tensor:
    """Rotary positions."""
    s, half = x.shape[-2], x.shape[-1] // 2
    rate = 10_000.0 ** (-torch.arange(half, device=x.device) / half)
    angle = torch.arange(s, device=x.device)[:, None] * rate
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class FeedForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        hidden, width = MODEL["hidden"], MODEL["ffn"]
        self.into = nn.Linear(hidden, width, bias=False)
        self.gate = nn.Linear(hidden, width, bias=False) if MODEL["gated"] else None
        self.out = nn.Linear(width, hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.gate is None:
            return self.out(F.gelu(self.into(x)))
        return self.out(F.silu(self.gate(x)) * self.into(x))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(MODEL["hidden"])
        self.attention = Attention()
        self.norm_2 = nn.RMSNorm(MODEL["hidden"])
        self.feed_forward = FeedForward()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm(x))
        return x + self.feed_forward(self.norm_2(x))


class Chunk(nn.Module):
    """Consecutive layers, with the embedding before the first and the output after the last."""

    def __init__(self, layers: list[int]) -> None:
        super().__init__()
        hidden, vocab, last = MODEL["hidden"], MODEL["vocab"], MODEL["layers"] - 1
        self.embedding = nn.Embedding(vocab, hidden) if 0 in layers else None
        self.blocks = nn.ModuleDict({str(layer): Block() for layer in layers})
        self.norm = nn.RMSNorm(hidden) if last in layers else None
        self.output = nn.Linear(hidden, vocab, bias=False) if last in layers else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast(x.device.type, torch.bfloat16, enabled=_casts_by_op()):
            x = x if self.embedding is None else self.embedding(x)
            for block in self.blocks.values():
                x = block(x)
            return x if self.output is None or self.norm is None else self.output(self.norm(x))


def _casts_by_op() -> bool:
    """Weights that are whole stay in float32; those that are gathered come in bfloat16."""
    return bool(PLAN["type"] == "bfloat16" and PLAN["sharding"] == "none")


def parallelise(chunk: Chunk, mesh: DeviceMesh) -> nn.Module:
    """Tensor parallelism inside each block, then recomputation, then the data ranks."""
    tensor, data = mesh["tensor"], mesh["data"]
    for name, block in chunk.blocks.items():
        if tensor.size() > 1:
            parallelize_module(block, tensor, _tensor_plan())
        if int(name) in PLAN["recompute"]:
            chunk.blocks[name] = checkpoint_wrapper(block)
    if PLAN["sharding"] == "none":
        alone = data.size() == 1 or PLAN["pipeline"] > 1
        return chunk if alone else replicate(chunk, device_mesh=data)
    policy = MixedPrecisionPolicy()
    if PLAN["type"] == "bfloat16":
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in chunk.blocks.values():
        fully_shard(block, mesh=data, reshard_after_forward=PLAN["regathers"], mp_policy=policy)
    return fully_shard(chunk, mesh=data, reshard_after_forward=False, mp_policy=policy)


def _tensor_plan() -> dict[str, Any]:
    """Columns of the first products, rows of the last; the inputs of a part are prepared once, so
    that the gradients of all its first products are reduced together."""
    columns = ("attention.query", "attention.key", "attention.value", "feed_forward.into",
               *(("feed_forward.gate",) if MODEL["gated"] else ()))  # fmt: skip
    rows, whole = ("attention.out", "feed_forward.out"), (Replicate(),)
    parts = ("attention", "feed_forward")
    prepared = {name: PrepareModuleInput(input_layouts=whole, desired_input_layouts=whole)
                for name in parts}  # fmt: skip
    first = {name: ColwiseParallel() for name in columns}
    return {**prepared, **first, **{name: RowwiseParallel() for name in rows}}


def initialise(chunk: Chunk) -> None:
    """The same weights whatever the layout: each is drawn from its own name."""
    for name, weight in chunk.named_parameters():
        draw = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        if weight.dim() > 1:
            found = torch.randn(weight.shape, generator=draw) / math.sqrt(weight.shape[1])
            with torch.no_grad():
                weight.copy_(found)


def batch(step: int, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """This data rank's part of a step's sequences, and the next token of each."""
    draw = torch.Generator().manual_seed(step)
    shape = (PLAN["global_batch"], PLAN["sequence"] + 1)
    tokens = torch.randint(MODEL["vocab"], shape, generator=draw)
    mine = tokens.chunk(PLAN["data"])[rank]
    return mine[:, :-1].contiguous(), mine[:, 1:].contiguous()


def loss_of(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.flatten(0, 1).float(), target.flatten())


def train(steps: int) -> tuple[list[float], list[float]]:
    """Losses of the steps, the mean over data ranks; none on ranks of any stage but the last. And
    how many seconds each step took."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    sizes = (PLAN["pipeline"], PLAN["data"], PLAN["tensor"])
    mesh = init_device_mesh(device.type, sizes, mesh_dim_names=("pipeline", "data", "tensor"))
    stage, stages = mesh.get_local_rank("pipeline"), PLAN["pipeline"]
    mine = [(at, Chunk(PLAN["layers"][at])) for at in range(stage, len(PLAN["layers"]), stages)]
    for _, chunk in mine:
        initialise(chunk)
        chunk.to(device)
    parts = [(at, parallelise(chunk, mesh)) for at, chunk in mine]
    weights = [weight for _, part in parts for weight in part.parameters()]
    optimizer = torch.optim.AdamW(weights, lr=1e-3, foreach=False)
    group = mesh.get_group("pipeline")
    run = _piped(parts, group, device) if stages > 1 else _alone(parts[0][1])
    losses, seconds = [], []
    for step in range(steps):
        began = time.perf_counter()
        optimizer.zero_grad()
        tokens, target = (one.to(device) for one in batch(step, mesh.get_local_rank("data")))
        loss = run(tokens, target)
        if PLAN["sharding"] == "none" and stages > 1 and PLAN["data"] > 1:
            average([weight.grad for weight in weights], mesh.get_group("data"))
        optimizer.step()
        if loss is not None:
            mean = loss.detach() / PLAN["data"]
            dist.all_reduce(mean, group=mesh.get_group("data"))
            losses.append(mean.item())
        seconds.append(time.perf_counter() - began)
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(0.2)  # a process that ends before gloo's threads have let go may abort
    return losses, seconds


def _alone(chunk: nn.Module) -> Any:
    """Micro-batches one after another, their gradients added up; reduced after the last one, or
    after each where weights are gathered for each pass."""

    def run(tokens: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        total = torch.zeros((), device=tokens.device)
        size = PLAN["micro_batch"]
        for at, (inputs, wanted) in enumerate(zip(tokens.split(size), target.split(size))):
            reduce_now(chunk, PLAN["regathers"] or at + 1 == PLAN["micro_batches"])
            loss = loss_of(chunk(inputs), wanted) / PLAN["micro_batches"]
            loss.backward()
            total += loss.detach()
        return total

    return run


def reduce_now(part: Any, now: bool) -> None:
    """Whether the next backward pass reduces gradients among the data ranks, behind which sharded
    weights are needed no more."""
    if hasattr(part, "set_requires_gradient_sync"):
        part.set_requires_gradient_sync(now)
    if hasattr(part, "set_reshard_after_backward"):
        part.set_reshard_after_backward(now)


def _piped(parts: list[tuple[int, nn.Module]], group: Any, device: torch.device) -> Any:
    count = len(PLAN["layers"])
    stages = [PipelineStage(part, at, count, device, group=group) for at, part in parts]
    if len(stages) > 1:
        schedule: Any = ScheduleInterleaved1F1B(stages, PLAN["micro_batches"], loss_fn=loss_of)
    else:
        schedule = Schedule1F1B(stages[0], PLAN["micro_batches"], loss_fn=loss_of)
    first, last = parts[0][0] == 0, parts[-1][0] == count - 1

    def run(tokens: torch.Tensor, target: torch.Tensor) -> torch.Tensor | None:
        given = (tokens,) if first else ()
        losses: list[torch.Tensor] = []
        schedule.step(*given, **({"target": target, "losses": losses} if last else {}))
        return torch.stack(losses).mean() if last else None

    return run


def average(gradients: list[Any], group: Any) -> None:
    """Of plain replicas of a stage, once a step: wrappers would reduce each micro-batch's."""
    local = [one.to_local() if isinstance(one, DTensor) else one for one in gradients]
    flat = torch.cat([one.flatten() for one in local])
    dist.all_reduce(flat, group=group)
    parts = (flat / PLAN["data"]).split([one.numel() for one in local])
    for one, mean in zip(local, parts):
        one.copy_(mean.view_as(one))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10)
    losses, seconds = train(parser.parse_args().steps)
    shows = int(os.environ["RANK"]) % (PLAN["data"] * PLAN["tensor"]) == 0
    if losses and shows:
        print("losses", *(f"{loss:.6f}" for loss in losses))
        print("seconds", *(f"{second:.6f}" for second in seconds))


if __name__ == "__main__":
    main()
