"""Images of ten classes, 28 by 28: Fashion-MNIST where it is at hand, else made ones.

Fashion-MNIST is looked for in `--data FOLDER/fashion-mnist` and where Debian's package
`dataset-fashion-mnist` puts it. Made images have a pattern per class, moved and under noise.
"""

import gzip
from pathlib import Path
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from paceline.bench.torch_data import drawn
from paceline.bench.workload import Setup
from paceline.learn.fashion_mnist import DEBIAN

SIDE: Final = 28
CLASSES: Final = 10
_TRAINED, _TESTED = 8192, 512  # images
_HEADER = 4  # bytes for each number of an IDX file's head
_NOISE = 0.6
_MOVED = 3  # pixels to each side

Images = tuple[Tensor, Tensor]
"""Pixels of mean 0, channels first, and classes."""


def images(setup: Setup) -> tuple[Images, Images]:
    """To train on, and to be judged by."""
    folder = fashion(setup.data)
    if folder is not None:
        return _read(folder, "train", _TRAINED), _read(folder, "t10k", _TESTED)
    return made(setup.samples or _TRAINED, 1), made(_TESTED, 2)


def fashion(data: Path | None) -> Path | None:
    """The folder of Fashion-MNIST; None where it is nowhere."""
    places = (data / "fashion-mnist" if data is not None else DEBIAN, DEBIAN)
    return next((each for each in places if (each / _file("train", "images", 3)).exists()), None)


def made(count: int, seed: int) -> Images:
    """Each class has a pattern of 7 by 7 dots, the same for all seeds."""
    patterns = torch.randn(CLASSES, 1, 7, 7, generator=drawn(0))
    patterns = functional.interpolate(patterns, size=SIDE + 2 * _MOVED, mode="bilinear")
    random = drawn(seed)
    classes = torch.randint(CLASSES, (count,), generator=random)
    offset = torch.randint(2 * _MOVED + 1, (2, count, 1), generator=random)
    rows, columns = offset + torch.arange(SIDE)
    found = patterns[classes[:, None, None], 0, rows[:, :, None], columns[:, None, :]]
    noise = _NOISE * torch.randn(count, SIDE, SIDE, generator=random)
    return (found + noise).unsqueeze(1), classes


def _read(folder: Path, part: str, count: int) -> Images:
    pixels = _numbers(folder / _file(part, "images", 3), 4)[: count * SIDE * SIDE]
    shown = pixels.view(-1, 1, SIDE, SIDE).float() / 255
    return (shown - 0.286) / 0.353, _numbers(folder / _file(part, "labels", 1), 2)[:count].long()


def _file(part: str, what: str, dims: int) -> str:
    return f"{part}-{what}-idx{dims}-ubyte.gz"


def _numbers(path: Path, head: int) -> Tensor:
    """The bytes of an IDX file after its head of so many numbers."""
    with gzip.open(path) as file:
        return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)[head * _HEADER :]
