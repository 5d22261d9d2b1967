"""One worker of a live test of the CPU back end: `python cpu_worker.py CASE RANK RANKS FOLDER`."""

import os
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from worker import compare, samples

from paceline.errors import PacelineError
from paceline.weave.backend import Peers
from paceline.weave.backends import backend
from paceline.weave.cpu.team import PeerError
from paceline.weave.language import AllReduce, Dropout, program, tensor
from paceline.weave.layout import Group, Partial, Replicated
from paceline.weave.program import Program
from paceline.weave.programs import adam, lamb
from paceline.weave.schedules import fully_fused, in_three
from paceline.weave.torch_lamb import Lamb
from paceline.weave.training import PLAIN, fused_step
from paceline.weave.transforms import applied, fuse

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": lambda p: torch.optim.Adam(p, 1e-2),
    "adamw": lambda p: torch.optim.AdamW(p, 1e-2, weight_decay=0.1),
    "sgd": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, nesterov=True, weight_decay=1e-3),
    "lamb": lambda p: Lamb(p, 1e-2),
}


def programs(rank: int, ranks: int, folder: Path) -> None:
    """Every fused sample that is generated equals the interpreter; so do kernels in a row."""
    fused = [s for s in samples(ranks) if s.kernels]
    generated = [s for s in fused if backend("cpu").refusal(s) is None]
    for step in generated:
        compare(step, "cpu", rank)
    assert {s.name for s in generated} >= {"adam", "sgd", "lamb"}
    three = in_three(adam(1000, Group.world(ranks), eps=1e-2))
    compare(three, "cpu", rank)
    compare(epilogue(Group.world(ranks)), "cpu", rank)
    tuned(Group.world(ranks), rank)


def tuned(group: Group, rank: int) -> None:
    """Every loop-level setting at once gives what the default gives; norms add up by chunk."""
    step, found = fully_fused(lamb((48, 2000), group)), []
    settings = {"chunk": 512, "stream_own": True, "peers_first": True, "prefetch": 64, "unroll": 4}
    for tunables in (backend("cpu").tunables(step)[0], settings):
        run = backend("cpu").compile(step, Peers(rank, {group: None}), tunables)
        for at, buffer in enumerate(run.buffers.values()):
            buffer.copy_(torch.linspace(0.1, 1 + at, buffer.numel()))
        run.run({"lr": 0.1, "t": 3.0})
        found.append({n: t.clone() for n, t in run.buffers.items()})
        run.close()
    for name, wanted in found[0].items():
        close = {"rtol": 0.0, "atol": 0.0} if name in "mv" else {}
        torch.testing.assert_close(found[1][name], wanted, **close)


def epilogue(group: Group) -> Program:
    """What follows a MatMul in Megatron, on its Partial product: bias, dropout, residual."""
    product = tensor("product", (6, 32), Partial(), group)
    bias, residual = (
        tensor(name, shape, Replicated(), group)
        for name, shape in (("bias", (32,)), ("residual", (6, 32)))
    )
    step = program("epilogue", residual + Dropout(AllReduce(product) + bias, 0.3, 77))
    return applied(fuse(step))


def network() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(37, 53, bias=False),
        torch.nn.BatchNorm1d(53),
        torch.nn.ReLU(),
        torch.nn.Linear(53, 11),
    )


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
    for i in steps:
        generator = torch.Generator().manual_seed(1000 * i + dist.get_rank())
        x = torch.randn(16, 37, generator=generator)
        y = torch.randint(0, 11, (16,), generator=generator)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def training(rank: int, ranks: int, folder: Path) -> None:
    """100 steps, in and out of the context and through a checkpoint, equal DDP with torch.optim."""
    for name, make in OPTIMIZERS.items():
        plain, fused = (DistributedDataParallel(network()) for _ in range(2))
        plain_optimizer, optimizer = make(plain.parameters()), make(fused.parameters())
        train(plain, plain_optimizer, range(100))
        with fused_step(fused, optimizer) as step:
            assert step.schedule != PLAIN, step.reason
            train(fused, optimizer, range(40))
            saved = optimizer.state_dict()
            optimizer.load_state_dict(saved)
            train(fused, optimizer, range(40, 60))
        train(fused, optimizer, range(60, 61))
        again = make(fused.parameters())
        again.load_state_dict(optimizer.state_dict())
        with fused_step(fused, again):
            train(fused, again, range(61, 100))
        for p, q in zip(plain.parameters(), fused.parameters()):
            equal(f"{name} {tuple(p.shape)}", p.detach(), q.detach())
            for key, wanted in plain_optimizer.state[p].items():
                if torch.is_tensor(wanted):
                    equal(f"{name} {key} {tuple(p.shape)}", wanted, again.state[q][key])
        for p, q in zip(plain.buffers(), fused.buffers()):
            torch.testing.assert_close(p, q)
        assert "step" not in again.__dict__
        assert all(p.is_leaf and p.data_ptr() for p in fused.parameters())
    scheduled(rank, ranks)


def equal(what: str, wanted: torch.Tensor, found: torch.Tensor) -> None:
    error = float((wanted - found).norm() / wanted.norm())
    assert error < 1e-6, f"{what} differs by {error:.1e}"


def scheduled(rank: int, ranks: int) -> None:
    """A learning-rate scheduler, gradient accumulation and clipping work as they do outside."""
    models = [DistributedDataParallel(network()) for _ in range(2)]
    optimizers = [torch.optim.SGD(m.parameters(), 0.1) for m in models]
    schedulers = [torch.optim.lr_scheduler.StepLR(o, 2, 0.5) for o in optimizers]

    def epoch(which: int) -> None:
        model, optimizer = models[which], optimizers[which]
        for i in range(6):
            optimizer.zero_grad()
            with model.no_sync():
                model(torch.full((4, 37), 0.1 * i + rank)).square().mean().backward()
            model(torch.full((4, 37), 0.2 * i - rank)).square().mean().backward()
            optimizer.step()
            schedulers[which].step()

    epoch(0)
    with fused_step(models[1], optimizers[1]):
        epoch(1)
    for p, q in zip(models[0].parameters(), models[1].parameters()):
        torch.testing.assert_close(p, q)


def killed(rank: int, ranks: int, folder: Path) -> None:
    """A rank that is killed while the others are in the step: they say who died."""

    def die_on_the_way() -> None:
        model, optimizer = ready()
        with fused_step(model, optimizer):
            train(model, optimizer, range(2))
            if rank == ranks - 1:
                os.kill(os.getpid(), signal.SIGKILL)
            train(model, optimizer, range(2, 3))

    with pytest.raises(PeerError, match=f"rank {ranks - 1} died"):
        die_on_the_way()
    os._exit(0)  # the process group is broken; leaving it in order would hang


def left(rank: int, ranks: int, folder: Path) -> None:
    """A rank that fails in its own code inside the context: the others hear of it."""

    def fail_on_the_way() -> None:
        model, optimizer = ready()
        with fused_step(model, optimizer):
            if rank == 0:
                raise KeyError("the user's own mistake")
            train(model, optimizer, range(1))

    kind, reason = (KeyError, "own mistake") if rank == 0 else (PeerError, "rank 0 left")
    with pytest.raises(kind, match=reason):
        fail_on_the_way()


def late(rank: int, ranks: int, folder: Path) -> None:
    """A rank that is alive but does not come: the others stop waiting."""
    model, optimizer = ready()
    if rank == 0:
        with (
            pytest.raises(PeerError, match="did not come"),
            fused_step(model, optimizer, timeout_s=0.5),
        ):
            train(model, optimizer, range(1))
        dist.barrier()
        return
    with fused_step(model, optimizer, timeout_s=0.5):
        dist.barrier()


def ready() -> tuple[DistributedDataParallel, torch.optim.Optimizer]:
    """A model without buffers: nothing but the fused step joins the ranks."""
    model = DistributedDataParallel(torch.nn.Linear(37, 11))
    return model, torch.optim.Adam(model.parameters())


def refused(rank: int, ranks: int, folder: Path) -> None:
    """What cannot be done is said before anything is touched."""
    model = DistributedDataParallel(network())
    cases = {
        "amsgrad": torch.optim.Adam(model.parameters(), amsgrad=True),
        "maximize": torch.optim.SGD(model.parameters(), 0.1, maximize=True),
        "no fused step for": torch.optim.RMSprop(model.parameters()),
    }
    for reason, optimizer in cases.items():
        expect(reason, model, optimizer, lambda: None)
    half = DistributedDataParallel(network().double())
    expect("float64", half, torch.optim.Adam(half.parameters()), lambda: None)
    optimizer = torch.optim.Adam(model.parameters())
    expect("DistributedDataParallel", model.module, optimizer, lambda: None)

    def rebind() -> None:
        first = next(model.parameters())
        first.data = first.data.clone()
        train(model, optimizer, range(1))

    expect("was rebound", model, optimizer, rebind)

    def change() -> None:
        optimizer.param_groups[0]["betas"] = (0.5, 0.9)
        train(model, optimizer, range(1))

    expect("settings changed", model, optimizer, change)


def expect(reason: str, model: object, optimizer: object, work: Callable[[], None]) -> None:
    with pytest.raises(PacelineError, match=reason), fused_step(model, optimizer):
        work()


def too_small(rank: int, ranks: int, folder: Path) -> None:
    """Shared memory that cannot hold the arena: the plain schedule runs and says why."""
    model = DistributedDataParallel(network())
    optimizer = torch.optim.Adam(model.parameters())
    with fused_step(model, optimizer) as step:
        assert step.schedule == PLAIN
        assert "free" in step.reason, step.reason
        train(model, optimizer, range(1))


def no_compiler(rank: int, ranks: int, folder: Path) -> None:
    model = DistributedDataParallel(network())
    optimizer = torch.optim.Adam(model.parameters())
    with fused_step(model, optimizer) as step:
        assert step.schedule == PLAIN
        assert "compiler" in step.reason
        train(model, optimizer, range(1))


CASES = (programs, training, killed, left, late, refused, too_small, no_compiler)

if __name__ == "__main__":
    torch.set_num_threads(1)
    case, rank, ranks, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder / 'meeting'}",
        rank=rank,
        world_size=ranks,
        timeout=timedelta(seconds=60),
    )
    {c.__name__: c for c in CASES}[case](rank, ranks, folder)
    dist.barrier()
    os._exit(0)  # an orderly end now and then meets an abort in gloo's own threads
