"""Training of any network that tells ten classes of images apart."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from paceline.bench.torch_data import endless
from paceline.bench.torch_images import images
from paceline.bench.torch_parallel import Judging, plain, replicated, supervised
from paceline.bench.workload import Setup, Training

Updates = Callable[[nn.Module], torch.optim.Optimizer]
_AT_ONCE = 128  # test images


def classifying(model: nn.Module, update: Updates, setup: Setup) -> Training:
    """Cross entropy; the quality is the share of test images that are told right."""
    train, test = images(setup)
    whole = replicated(model, setup)

    def loss(batch: tuple[Tensor, Tensor]) -> Tensor:
        return functional.cross_entropy(whole(batch[0]), batch[1])

    return supervised(loss, update(whole), endless(train, setup), lambda: accuracy(whole, test))


def accuracy(model: nn.Module, test: tuple[Tensor, Tensor]) -> float:
    right, judged = 0, plain(model)
    with Judging(judged):
        for pixels, classes in zip(test[0].split(_AT_ONCE), test[1].split(_AT_ONCE)):
            right += int((judged(pixels).argmax(1) == classes).sum())
    return right / len(test[1])
