"""Fashion-MNIST from a folder of its four IDX files, packed or not."""

import gzip
from pathlib import Path
from typing import Any, Final

import numpy as np

from paceline.learn.errors import LearnError
from paceline.learn.samples import Samples

DEBIAN: Final = Path("/usr/share/datasets/fashion-mnist")
"""Where Debian's package `dataset-fashion-mnist` puts it."""
_SIDE = 28
_HEADER_BYTES = {"images-idx3": 16, "labels-idx1": 8}
_MEAN, _DEVIATION = 0.286, 0.353  # of all training pixels, as shares of white


def fashion_mnist(named: Path) -> tuple[Samples, Samples]:
    """Training and test images, 1 x 28 x 28, with mean 0 and deviation 1."""
    folder = folder_of(named)
    return _part(folder, "train"), _part(folder, "t10k")


def folder_of(named: Path) -> Path:
    """As given; where no such folder is here, `fashion-mnist` alone is that of Debian's package."""
    return DEBIAN if str(named) == DEBIAN.name and not named.exists() else named


def _part(folder: Path, part: str) -> Samples:
    pixels = _idx(folder, part, "images-idx3").reshape(-1, 1, _SIDE, _SIDE)
    inputs = ((pixels / np.float32(255) - _MEAN) / _DEVIATION).astype(np.float32)
    return Samples(inputs, _idx(folder, part, "labels-idx1").astype(np.int64))


def _idx(folder: Path, part: str, what: str) -> Any:
    plain = folder / f"{part}-{what}-ubyte"
    packed = plain.with_name(plain.name + ".gz")
    try:
        raw = gzip.decompress(packed.read_bytes()) if packed.exists() else plain.read_bytes()
    except (OSError, EOFError) as error:
        raise LearnError(
            f"{folder} has no readable {plain.name} or {packed.name}; give the folder of "
            "Fashion-MNIST's four files, or fashion-mnist alone where Debian's package "
            "dataset-fashion-mnist is installed"
        ) from error
    return np.frombuffer(raw, np.uint8, offset=_HEADER_BYTES[what])
