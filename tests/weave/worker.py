"""One worker of a live test: runs every sample program on plain torch and chunked gloo, and
compares its parts with the interpreter's. `python worker.py RANK RANKS FILE` (they meet there)."""

import sys
from collections.abc import Iterator
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist

from paceline.graph import DType
from paceline.weave.backend import Peers
from paceline.weave.backends import backend
from paceline.weave.backends.peer_link import connect
from paceline.weave.backends.torch_compute import TORCH
from paceline.weave.host import HostSettings
from paceline.weave.interpreter import distribute, interpret
from paceline.weave.language import (
    AllGather,
    AllReduce,
    AllToAll,
    Dropout,
    Ite,
    Norm,
    ReduceAll,
    Repeat,
    Sqrt,
    program,
    tensor,
)
from paceline.weave.layout import Group, Partial, Sliced
from paceline.weave.linear import Cut, overlapped_linear
from paceline.weave.ops import ReduceKind, Role
from paceline.weave.program import Program
from paceline.weave.programs import adam, hand_over, lamb, mlp, sgd, sliced_hand_over
from paceline.weave.schedules import schedule
from paceline.weave.transforms import (
    SplitInto,
    applied,
    fuse,
    overlap,
    reorder,
    slice_state,
    split,
)

DTYPES = (DType.FLOAT32, DType.FLOAT64, DType.BFLOAT16, DType.FLOAT16)


def samples(ranks: int) -> Iterator[Program]:
    """Programs of every kind of op, as written and under their schedules."""
    world = Group.world(ranks)
    for step, gathered in (
        *((adam(7, world, dtype=d, eps=1e-2), "sum_g") for d in DTYPES),
        (adam(1, world, max_norm=0.5), "sum_g"),
        (sgd(ranks * 3, world, momentum=0.9, nesterov=True), "sum_g"),
        (lamb((4, 3), world, eps=1e-2), "sum_g"),
        (mlp(5, 3, world, p=0.4), "total"),
    ):
        yield step
        yield applied(split(step, gathered, SplitInto.REDUCE_BROADCAST, root=ranks - 1))
        scattered = applied(reorder(applied(split(step, gathered)), gathered))
        yield scattered
        state = [s.name for s in step.inputs if s.op.role is Role.STATE]
        if state:
            yield applied(fuse(applied(slice_state(scattered, *state))))
    yield assorted(world)
    if ranks == 2:
        step = hand_over(5, 3, Group((0,), "here"), Group((1,), "there"), dtype=DType.FLOAT32)
        yield step
        yield sliced_hand_over(step)


def overlapped(ranks: int) -> Iterator[Program]:
    """A product beside its AllReduce, beside a kernel that holds it, and beside one that scatters
    columns (uneven ones, fewer than ranks), computes on them and gathers."""
    world = Group.world(ranks)
    for chunks in (2, 3, 7):
        yield applied(overlap(mlp(7, 4, world), "product", "total", chunks=chunks))
        whole = applied(fuse(mlp(7, 4, world, p=0.4), ("total", "add", "dropout", "add_2")))
        yield applied(overlap(whole, "product", "fused", chunks=chunks))
    for rows, hidden, dtype in (
        (7, 5, DType.FLOAT32),
        (2, 1, DType.FLOAT64),
        (9, 4, DType.BFLOAT16),
    ):
        step = mlp(rows, hidden, world, p=0.4, dtype=dtype)
        yield schedule(step, "overlap(MM, fused(RS-C-AG))").program


def assorted(group: Group) -> Program:
    """Ops that the shipped programs do not use."""
    x = tensor("x", (4, 5), Sliced(0), group)
    g = tensor("g", (6,), Partial(), group)
    moved = AllGather(AllToAll(x, 1))
    total = AllReduce(g)
    rows = ReduceAll(moved, ReduceKind.MAX, dim=0)
    chosen = Ite(total > 0.0, Dropout(total, 0.5, 2**40 + 5), -total)
    norms = Norm(chosen, segments=(2, 4))
    return program("assorted", rows, Sqrt(Repeat(norms, (2, 4)) + 1.0), AllReduce(ReduceAll(x)))


def values(step: Program) -> dict[str, object]:
    rng, found = np.random.default_rng(3), dict[str, object]()
    for source in step.inputs:
        kind, role = source.type, source.op.role
        if role is Role.SCALAR:
            found[source.name] = 5 if kind.dtype is DType.INT64 else 0.25
            continue
        lead = (kind.group.size,) if isinstance(kind.layout, Partial) else ()
        found[source.name] = np.abs(rng.standard_normal((*lead, *kind.shape)))
    return found


def compare(
    step: Program, name: str, rank: int, host: HostSettings | None = None, **settings: bool
) -> None:
    """Two runs in a row, so that leftovers of the first would show in the second."""
    runner = backend(name, host)
    assert runner.refusal(step) is None, runner.refusal(step)
    peers = Peers(rank, {g: process_group(g) for g in step.groups})
    executable = runner.compile(step, peers, {**runner.tunables(step)[0], **settings})
    held = distribute(step, values(step))
    numbers = {s.name: held[s.name][0].item() for s in step.inputs if s.op.role is Role.SCALAR}
    for turn in range(2):
        for source, buffer in executable.buffers.items():
            index = peers.index(step[source].type.group)
            buffer.copy_(torch.from_numpy(np.asarray(held[source][index])).to(buffer.dtype))
        returned = executable.run(numbers)
        result = interpret(step, held)
        for key, part in {**executable.buffers, **returned}.items():
            index = peers.index(step[key].type.group)
            check(
                f"{step.name} {key} turn {turn}",
                step[key].type.dtype,
                part,
                result.parts[key][index],
            )
        held = {s.name: result.parts[s.name] for s in step.inputs}
    executable.close()


def check(what: str, dtype: DType, part: torch.Tensor, wanted: np.ndarray) -> None:
    tolerance = {DType.FLOAT16: 4e-3, DType.BFLOAT16: 3e-2, DType.FLOAT64: 1e-12}.get(dtype, 2e-6)
    expected = torch.from_numpy(np.asarray(wanted)).to(TORCH[dtype])
    torch.testing.assert_close(
        part, expected, rtol=tolerance, atol=tolerance, msg=lambda text: f"{what}: {text}"
    )


def compare_linear(rank: int, ranks: int) -> None:
    """Two sharded layers in a row against the same layers whole, forward and backward."""
    torch.manual_seed(0)
    up, down = torch.nn.Linear(5, 2 * ranks), torch.nn.Linear(2 * ranks, 3)
    x = torch.randn(4, 2, 5, requires_grad=True)
    wanted = down(up(x).tanh())
    (grad_x, grad_up, grad_down) = torch.autograd.grad(
        wanted.square().sum(), (x, up.weight, down.weight)
    )
    mine = slice(2 * rank, 2 * rank + 2)
    up_part, down_part = torch.nn.Linear(5, 2), torch.nn.Linear(2, 3)
    up_part.load_state_dict({"weight": up.weight[mine], "bias": up.bias[mine]})
    down_part.load_state_dict({"weight": down.weight[:, mine], "bias": down.bias})
    with (
        overlapped_linear(up_part, Cut.OUTER, chunks=3),
        overlapped_linear(down_part, Cut.INNER, chunks=3),
    ):
        got = down_part(up_part(x).tanh())
        (part_x, part_up, part_down) = torch.autograd.grad(
            got.square().sum(), (x, up_part.weight, down_part.weight)
        )
    assert "forward" not in up_part.__dict__
    torch.testing.assert_close(got, wanted)
    torch.testing.assert_close(part_x, grad_x)
    torch.testing.assert_close(part_up, grad_up[mine])
    torch.testing.assert_close(part_down, grad_down[:, mine])


def compare_without_a_link(rank: int) -> None:
    """Where the ranks cannot reach each other, gloo carries the chunks."""
    nowhere = HostSettings(interface="none0")
    assert connect(None, nowhere) is None
    compare(next(overlapped(2)), "gloo", rank, host=nowhere)


def process_group(group: Group) -> object:
    if group.size == dist.get_world_size():
        return None
    return dist.new_group(list(group.ranks))


def main(rank: int, ranks: int, meeting: str) -> None:
    dist.init_process_group(
        "gloo",
        init_method=f"file://{meeting}",
        rank=rank,
        world_size=ranks,
        timeout=timedelta(seconds=180),
    )
    for step in samples(ranks):
        compare(step, "plain", rank)
    for step in overlapped(ranks):
        compare(step, "gloo", rank)
        compare(step, "gloo", rank, link=False)
    compare_linear(rank, ranks)
    if ranks == 2:
        compare_without_a_link(rank)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
