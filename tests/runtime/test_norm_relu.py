"""Batch norms that bring their ReLU along: torch's numbers, fewer tensors kept, all put back."""

from contextlib import nullcontext
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from paceline.engine import native  # noqa: E402
from paceline.runtime.stages.torch_live import LiveBytes  # noqa: E402
from paceline.runtime.torch_norm_pairs import PairError  # noqa: E402
from paceline.runtime.torch_norm_relu import norms_restructured  # noqa: E402

pytestmark = pytest.mark.skipif(native() is None, reason="no native core was built")


class Net(nn.Module):
    """Two pairs, a norm whose result is added, and a ReLU that is called as a function."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.one, self.norm_one = nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.two, self.norm_two = nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 4)

    def forward(self, images: Any) -> Any:
        images = self.stem(images)
        made = torch.relu(self.norm_one(self.one(images)))
        made = torch.relu(self.norm_two(self.two(made)) + images)
        return self.head(made.mean((2, 3)))


def model() -> nn.Module:
    torch.manual_seed(1)
    made = Net()
    for module in made.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, -1.0, 1.5)
            nn.init.uniform_(module.bias, -0.5, 0.5)
    return made


def trained(
    recomputed: bool | None, threads: int = 1, size: int = 9
) -> tuple[list[Any], list[Any]]:
    """What the model gives in each step, and its state in the end; None: without the change."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    made = model()
    optimizer = torch.optim.SGD(made.parameters(), lr=0.05)
    drawn, losses = torch.Generator().manual_seed(2), []
    change = (
        nullcontext() if recomputed is None else norms_restructured(made, recomputed=recomputed)
    )
    with change:
        for turn in range(8):
            made.train(turn != 5)
            images = 3 + torch.randn(6, 3, size, size, generator=drawn)
            loss = made(images).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    torch.set_num_threads(before)
    return losses, [value.clone() for value in made.state_dict().values()]


@pytest.mark.parametrize("recomputed", [True, False])
@pytest.mark.parametrize(("threads", "size"), [(1, 9), (3, 80)])
def test_training_evaluating_and_running_moments_are_torchs(
    recomputed: bool, threads: int, size: int
) -> None:
    for plain, ours in zip(trained(None, threads, size), trained(recomputed, threads, size)):
        for one, other in zip(plain, ours):
            assert torch.allclose(one.double(), other.double(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(2, 3, 5), (4, 16, 16, 16), (1, 2, 1, 3000), (3, 1, 2, 2, 2)])
def test_one_pair_is_torchs_forward_and_backward(shape: tuple[int, ...]) -> None:
    torch.manual_seed(3)
    norm = {3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}[len(shape)](shape[1])
    nn.init.normal_(norm.weight)
    made = nn.Sequential(norm, nn.ReLU())
    images, back = 2 + torch.randn(shape), torch.randn(shape)

    def gradients() -> list[Any]:
        given = images.clone().requires_grad_()
        norm.zero_grad()
        result = made(given)
        result.backward(back)
        return [result.detach(), given.grad, norm.weight.grad.clone(), norm.bias.grad.clone()]

    plain = gradients()
    with norms_restructured(made, recomputed=False):
        made(images)  # watched
        assert all(
            torch.allclose(one, other, rtol=1e-4, atol=1e-5)
            for one, other in zip(plain, gradients())
        )


def test_results_that_are_made_again_are_not_kept() -> None:
    def live(recomputed: bool) -> int:
        made, images = model(), torch.randn(4, 3, 16, 16)
        with norms_restructured(made, recomputed=recomputed):
            made(images)
            with LiveBytes() as counted:
                loss = made(images).sum()
                held = counted.bytes
            loss.backward()
        return held

    image = 4 * 4 * 8 * 16 * 16
    assert live(False) - live(True) == 2 * image, "that of both pairs"


def test_a_result_that_goes_elsewhere_later_is_noticed() -> None:
    class Fickle(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.cut = nn.BatchNorm1d(3), True

        def forward(self, given: Any) -> Any:
            made = self.norm(given)
            return torch.relu(made) if self.cut else made + 1

    made = Fickle()
    with norms_restructured(made, recomputed=False):
        made(torch.randn(2, 3, 4))
        made.cut = False
        with pytest.raises(PairError, match="goes elsewhere in a later one"):
            made(torch.randn(2, 3, 4))


def test_a_model_without_batch_norms_is_refused_and_the_context_leaves_nothing() -> None:
    entering = norms_restructured(nn.Linear(2, 2), recomputed=True)
    with pytest.raises(PairError, match="no batch norm"), entering:
        raise AssertionError("entered")
    made = model()
    with norms_restructured(made, recomputed=True):
        pass
    assert all("forward" not in vars(module) for module in made.modules())
