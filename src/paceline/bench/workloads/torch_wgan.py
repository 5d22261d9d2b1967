"""WGAN-GP (Gulrajani et al. 2017): a critic that grades pictures, a generator that learns from it.

Both take one step a batch, the critic with the larger rate (Heusel et al. 2017), so that all steps
are alike. Pictures are soft rings of any place and size. The quality is how far generated pictures
lie from real ones: the distance of their sorted projections (sliced Wasserstein).
"""

import torch
from torch import Tensor, nn

from paceline.bench.torch_data import drawn, endless
from paceline.bench.torch_parallel import Judging, plain, replicated
from paceline.bench.torch_training import train
from paceline.bench.workload import Domain, Pace, Quality, Setup, Training, Workload

SIDE, NOISE = 16, 32
PENALTY = 10.0
_TRAINED, _TESTED, _LINES = 8192, 512, 128


def generator() -> nn.Module:
    return nn.Sequential(
        nn.Linear(NOISE, 64 * 16), nn.Unflatten(1, (64, 4, 4)), nn.BatchNorm2d(64), nn.ReLU(),
        nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.ConvTranspose2d(32, 1, 4, 2, 1), nn.Tanh(),
    )  # fmt: skip


def critic() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(32, 64, 4, 2, 1), nn.LeakyReLU(0.2),
        nn.Flatten(), nn.Linear(64 * 16, 1),
    )  # fmt: skip


def build(setup: Setup) -> Training:
    test = rings(_TESTED, 2)
    maker, judge = replicated(generator(), setup), replicated(critic(), setup)
    making = torch.optim.Adam(maker.parameters(), lr=3e-4, betas=(0.0, 0.9))
    judging = torch.optim.Adam(judge.parameters(), lr=1e-3, betas=(0.0, 0.9))

    def step(batch: tuple[Tensor]) -> Tensor:
        real = batch[0]
        made = maker(torch.randn(len(real), NOISE))
        judging.zero_grad()
        lost = critic_loss(judge, real, made.detach())
        lost.backward()
        judging.step()
        making.zero_grad()
        judge.requires_grad_(False)
        (-plain(judge)(made).mean()).backward()
        judge.requires_grad_()
        making.step()
        return lost.detach()

    data = endless((rings(setup.samples or _TRAINED, 1),), setup)
    return Training(data, step, lambda: distance(maker, test))


def critic_loss(judge: nn.Module, real: Tensor, made: Tensor) -> Tensor:
    """What it gives made pictures over real ones, and by how much its slope between them is not
    one. All go through it at once, so that replicas see one forward pass."""
    part = torch.rand(len(real), 1, 1, 1)
    between = (part * real + (1 - part) * made).requires_grad_()
    for_real, for_made, for_between = judge(torch.cat([real, made, between])).chunk(3)
    slope = torch.autograd.grad(for_between.sum(), between, create_graph=True)[0]
    penalty = ((slope.flatten(1).norm(dim=1) - 1) ** 2).mean()
    return for_made.mean() - for_real.mean() + PENALTY * penalty


def rings(count: int, seed: int) -> Tensor:
    """Values of -1 to 1."""
    random = drawn(seed)
    middle = SIDE * (0.3 + 0.4 * torch.rand(count, 2, 1, 1, generator=random))
    radius = SIDE * (0.12 + 0.16 * torch.rand(count, 1, 1, generator=random))
    at = torch.arange(SIDE) + 0.5
    far = ((at - middle[:, 0]) ** 2 + (at.unsqueeze(1) - middle[:, 1]) ** 2).sqrt()
    return (2 * torch.exp(-((far - radius) ** 2) / 2) - 1).unsqueeze(1)


def distance(maker: nn.Module, test: Tensor) -> float:
    """Mean distance of sorted projections on random lines, the same for every look."""
    random = drawn(3)
    lines = torch.randn(SIDE * SIDE, _LINES, generator=random)
    lines /= lines.norm(dim=0)
    with Judging(plain(maker)):
        made = plain(maker)(torch.randn(len(test), NOISE, generator=random))
        sorted_ = [(each.flatten(1) @ lines).sort(0).values for each in (made, test)]
    return float((sorted_[0] - sorted_[1]).abs().mean())


WORKLOAD = Workload(
    name="wgan",
    domain=Domain.ADVERSARIAL,
    model="WGAN-GP, convolutional critic and generator",
    data=f"made pictures of rings, {SIDE} by {SIDE}",
    quality=Quality("sliced Wasserstein distance", 0.08, at_least=False),
    pace=Pace(batch=64, batches=(16, 32, 64, 128, 256), steps=3000, every=100),
    build=build,
)

if __name__ == "__main__":
    train(WORKLOAD)
