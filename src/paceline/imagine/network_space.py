"""`ImageNetwork`: a convolutional network by its family and size; `drawn`: many of them at random.

Families are torchvision's architectures, whose width, depth and resolution vary, and `cell`:
networks of repeated cells as in NAS-Bench-201 (Dong and Yang, 2020), where each of six edges
between four nodes is nothing, a skip, a 1x1 or a 3x3 convolution, or an average.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

FAMILIES: Final = (
    "resnet", "resnext", "mobilenet_v2", "mobilenet_v3", "mnasnet", "shufflenet_v2", "squeezenet",
    "vgg", "densenet", "efficientnet", "regnet", "convnext", "googlenet", "cell",
)  # fmt: skip
EDGES: Final = 6
OPERATIONS: Final = 5  # on an edge
_WIDTHS: Final = (0.5, 1.25)
_DEPTHS: Final = (0.5, 1.5)
_RESOLUTIONS: Final = (96, 128, 160, 192, 224)
_CELL_SIZES: Final = (32, 48, 64)


@dataclass(frozen=True)
class ImageNetwork:
    """One network. `width` and `depth` are multiples of the architecture's own; `cell` is the
    operation of each edge."""

    family: str
    width: float
    depth: float
    resolution: int
    cell: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return (1, 3, self.resolution, self.resolution)

    def __str__(self) -> str:
        edges = f" [{''.join(map(str, self.cell))}]" if self.cell else ""
        return f"{self.family} x{self.width:g} d{self.depth:g} @{self.resolution}{edges}"


def drawn(count: int, seed: int) -> tuple[ImageNetwork, ...]:
    """Different networks, the families in turn."""
    random = np.random.default_rng(seed)
    found: dict[ImageNetwork, None] = {}
    while len(found) < count:
        found.setdefault(_one(FAMILIES[len(found) % len(FAMILIES)], random))
    return tuple(found)


def drawn_cells(count: int, seed: int) -> tuple[ImageNetwork, ...]:
    """Different networks of cells: a space as architecture searches walk through."""
    random = np.random.default_rng(seed)
    found: dict[ImageNetwork, None] = {}
    while len(found) < count:
        found.setdefault(_one("cell", random))
    return tuple(found)


def _one(family: str, random: np.random.Generator) -> ImageNetwork:
    width = round(float(random.uniform(*_WIDTHS)), 2)
    depth = round(float(random.uniform(*_DEPTHS)), 2)
    if family != "cell":
        return ImageNetwork(family, width, depth, int(random.choice(_RESOLUTIONS)))
    edges = tuple(random.integers(0, OPERATIONS, EDGES).tolist())
    return ImageNetwork(family, 2 * width, depth, int(random.choice(_CELL_SIZES)), edges)
