"""One worker of a live test of gradients inside `fused_step`:
`python gradient_worker.py RANK RANKS MEETING CASE`."""

import os
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_ as imported_by_name

from paceline.weave.cpu.team import PeerError
from paceline.weave.torch_gradient import PartialGradientError
from paceline.weave.torch_lamb import Lamb
from paceline.weave.training import PLAIN, FusedStep, FusedStepError, fused_step

Between = Callable[[torch.nn.Module, FusedStep], object]
"""What a script does between backward and step."""

WORDS, WIDTH = 50, 32


class Language(torch.nn.Module):
    """A small transformer that predicts words."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(WORDS, WIDTH)
        self.block = torch.nn.TransformerEncoderLayer(WIDTH, 4, 64, dropout=0.0, batch_first=True)
        self.head = torch.nn.Linear(WIDTH, WORDS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.block(self.embed(words)))


def language() -> DistributedDataParallel:
    torch.manual_seed(3)
    return DistributedDataParallel(Language())


def loss_of(model: torch.nn.Module, step: int) -> torch.Tensor:
    """On words of this worker's own."""
    generator = torch.Generator().manual_seed(100 * step + dist.get_rank())
    words = torch.randint(0, WORDS, (4, 12), generator=generator)
    scores = model(words[:, :-1]).flatten(0, 1)
    return torch.nn.functional.cross_entropy(scores, words[:, 1:].flatten())


def adamw(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), 1e-2)


def in_groups(model: torch.nn.Module) -> torch.optim.Optimizer:
    """Weights decay, the others do not: two arenas, one norm over both."""
    matrices = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim == 1]
    groups = [{"params": matrices}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, 1e-2, weight_decay=0.1)


def momentum(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), 0.5, momentum=0.9)


def lamb(model: torch.nn.Module) -> torch.optim.Optimizer:
    return Lamb(model.parameters(), 1e-2)


def losses(
    model: DistributedDataParallel,
    optimizer: torch.optim.Optimizer,
    between: Between,
    step: FusedStep,
) -> Iterator[float]:
    """Of 30 steps, each the mean over the workers."""
    for i in range(30):
        optimizer.zero_grad(set_to_none=i % 2 == 0)
        loss = loss_of(model, i)
        loss.backward()
        between(model, step)
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        yield float(mean) / dist.get_world_size()


def same_as_plain(
    between: Between, make: Callable[[torch.nn.Module], torch.optim.Optimizer] = adamw
) -> None:
    """Training with `between` is the same inside the context and outside it."""
    plain, fused = language(), language()
    wanted = list(losses(plain, make(plain), between, FusedStep(PLAIN)))
    optimizer = make(fused)
    with fused_step(fused, optimizer) as step:
        assert step.schedule != PLAIN, step.reason
        found = list(losses(fused, optimizer, between, step))
    assert found == pytest.approx(wanted, rel=1e-5)
    assert {type(p.grad) for p in fused.parameters()} == {torch.Tensor}


def clip_norm(model: torch.nn.Module, step: FusedStep) -> torch.Tensor:
    return torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)


def clipping() -> None:
    for make in (adamw, in_groups, momentum, lamb):
        same_as_plain(clip_norm, make)


def other_clipping() -> None:
    """Another norm, single values, a part of the parameters, and twice in a row."""
    utils = torch.nn.utils
    same_as_plain(lambda m, _: utils.clip_grad_norm_(m.parameters(), 0.1, norm_type=float("inf")))
    same_as_plain(lambda m, _: utils.clip_grad_value_(m.parameters(), 0.01))
    same_as_plain(lambda m, _: utils.clip_grad_norm_(list(m.parameters())[:3], 0.1))
    same_as_plain(lambda m, s: [clip_norm(m, s), utils.clip_grad_norm_(m.parameters(), 0.3)])


def norms() -> None:
    """The norm that clipping returns, and the gradients after it, are those of plain DDP."""
    plain, fused = language(), language()
    optimizer = adamw(fused)
    loss_of(plain, 0).backward()
    wanted = clip_norm(plain, FusedStep(PLAIN))
    with fused_step(fused, optimizer) as step:
        loss_of(fused, 0).backward()
        torch.testing.assert_close(clip_norm(fused, step), wanted)
        step.average_gradients()
        equal_gradients(plain, fused)
    equal_gradients(plain, fused)


def accumulated() -> None:
    """Gradients that come after clipping are added to clipped ones."""
    plain, fused = language(), language()
    optimizer = adamw(fused)
    for i in range(3):
        loss_of(plain, i).backward()
        clip_norm(plain, FusedStep(PLAIN))
    with fused_step(fused, optimizer) as step:
        for i in range(3):
            loss_of(fused, i).backward()
            clip_norm(fused, step)
    equal_gradients(plain, fused)


def equal_gradients(one: torch.nn.Module, other: torch.nn.Module) -> None:
    for p, q in zip(one.parameters(), other.parameters()):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-6)


def averaged() -> None:
    """Readers and changers that ask for averages first train as outside the context."""

    def shrink(model: torch.nn.Module, step: FusedStep) -> None:
        step.average_gradients()
        for p in model.parameters():
            p.grad.mul_(0.5 / (1.0 + p.grad.abs().max()))

    same_as_plain(shrink)
    same_as_plain(lambda m, s: [s.average_gradients(), imported_by_name(m.parameters(), 0.5)])


def scaled() -> None:
    """GradScaler after averaging skips no step and trains as without it."""
    model, other = language(), language()
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    with fused_step(model, optimizer := momentum(model)) as step:
        scaler.scale(loss_of(model, 0)).backward()
        with pytest.raises(PartialGradientError, match=r"average_gradients\(\) on every worker"):
            scaler.unscale_(optimizer)
    with fused_step(other, optimizer := momentum(other)) as step:
        scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
        scaler.scale(loss_of(other, 0)).backward()
        step.average_gradients()
        scaler.step(optimizer)
    plain = language()
    optimizer = momentum(plain)
    loss_of(plain, 0).backward()
    optimizer.step()
    for p, q in zip(plain.parameters(), other.parameters()):
        torch.testing.assert_close(p, q)


def refused() -> None:
    """A gradient that is one worker's part cannot be read, changed or clipped unnoticed."""
    readers: dict[str, Callable[[torch.nn.Parameter], object]] = {
        "norm": lambda p: p.grad.norm(),
        "data": lambda p: p.grad.data,
        "mul_": lambda p: p.grad.mul_(0.5),
        "linalg_vector_norm": lambda p: imported_by_name([p], 1.0),
        "__repr__": lambda p: repr(p.grad),
    }
    for name, read in readers.items():
        model = language()
        with pytest.raises(PartialGradientError, match=name):
            read_inside(model, read)
        assert all(p.grad is None for p in model.parameters())
    hooked = language()
    hooked.register_comm_hook(None, fp16_compress_hook)
    with pytest.raises(FusedStepError, match="fp16_compress"), fused_step(hooked, adamw(hooked)):
        pass


def read_inside(
    model: DistributedDataParallel, read: Callable[[torch.nn.Parameter], object]
) -> None:
    with fused_step(model, adamw(model)):
        loss_of(model, 0).backward()
        read(next(model.parameters()))


def hooks() -> None:
    """Hooks of parameters see this worker's part under DDP too, and change it alike."""

    def hooked(model: torch.nn.Module) -> torch.optim.Optimizer:
        for p in model.parameters():
            p.register_hook(lambda gradient: gradient.clamp(-0.01, 0.01))
        return momentum(model)

    same_as_plain(lambda model, step: None, hooked)


def alone() -> None:
    """One worker that clips where the other does not: an error, no wrong training."""
    model = language()
    optimizer = adamw(model)

    def step() -> None:
        with fused_step(model, optimizer, timeout_s=0.5) as fused:
            loss_of(model, 0).backward()
            if dist.get_rank() == 0:
                clip_norm(model, fused)
            optimizer.step()

    with pytest.raises(PeerError, match=r"clip_grad_norm_|left the fused step"):
        step()


def restored() -> None:
    """Leaving the context puts torch's functions back, also after an error."""
    before = (torch.nn.utils.clip_grad_norm_, torch.nn.utils.clip_grad_value_)
    model = language()

    def fail_inside() -> None:
        with fused_step(model, adamw(model)):
            assert torch.nn.utils.clip_grad_norm_ is not before[0]
            raise KeyError

    with pytest.raises(KeyError):
        fail_inside()
    assert (torch.nn.utils.clip_grad_norm_, torch.nn.utils.clip_grad_value_) == before
    assert torch.nn.utils.clip_grad.clip_grad_norm_ is before[0]


CASES = (
    clipping,
    other_clipping,
    norms,
    accumulated,
    averaged,
    scaled,
    refused,
    hooks,
    alone,
    restored,
)

if __name__ == "__main__":
    torch.set_num_threads(1)
    rank, ranks, meeting, case = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    dist.init_process_group(
        "gloo",
        init_method=f"file://{meeting}",
        rank=rank,
        world_size=ranks,
        timeout=timedelta(seconds=60),
    )
    {c.__name__: c for c in CASES}[case]()
    dist.barrier()
    os._exit(0)  # an orderly end may meet an abort in gloo's own threads
