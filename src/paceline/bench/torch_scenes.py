"""Scenes composed of squares, discs and triangles, and where in them each stands."""

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from paceline.bench.boxes import Box
from paceline.bench.torch_data import drawn

SIDE: Final = 64
STRIDE: Final = 8
GRID: Final = SIDE // STRIDE
KINDS: Final = 3  # square, disc, triangle
MOST: Final = 3
_SMALL, _LARGE = 12, 25  # pixels


@dataclass(frozen=True, eq=False)
class Scenes:
    """Pictures and what is in them, for the loss and for judging."""

    pixels: Tensor
    cells: Tensor  # for each cell of the grid a class (-1: none) and a box over the stride
    objects: list[list[tuple[int, Box]]]


def scenes(count: int, seed: int) -> Scenes:
    """Later objects cover earlier ones; the middles of no two lie in one cell."""
    random = drawn(seed)
    pixels = 0.15 * torch.randn(count, 3, SIDE, SIDE, generator=random)
    cells = torch.zeros(count, 5, GRID, GRID)
    cells[:, 0] = -1
    objects: list[list[tuple[int, Box]]] = [[] for _ in range(count)]
    shown = torch.randint(1, MOST + 1, (count,), generator=random).tolist()
    for scene, wanted in enumerate(shown):
        for _ in range(wanted):
            kind, wide, high, left, top = _drawn(random)
            row, column = (top + high // 2) // STRIDE, (left + wide // 2) // STRIDE
            if cells[scene, 0, row, column] >= 0:
                continue
            mask = _shape(kind, wide, high)
            colour = 0.5 + torch.rand(3, 1, 1, generator=random)
            place = pixels[scene, :, top : top + high, left : left + wide]
            place.copy_(torch.where(mask, colour, place))
            middle = torch.tensor([left + wide / 2, top + high / 2])
            inside = middle / STRIDE - torch.tensor([column, row])
            box = torch.tensor([wide / STRIDE, high / STRIDE])
            cells[scene, :, row, column] = torch.cat([torch.tensor([kind]), inside, box])
            objects[scene].append((kind, (left, top, left + wide, top + high)))
    return Scenes(pixels, cells, objects)


def _drawn(random: torch.Generator) -> tuple[int, ...]:
    """Kind, width, height, left and top."""
    kind = int(torch.randint(KINDS, (), generator=random))
    wide, high = torch.randint(_SMALL, _LARGE, (2,), generator=random).tolist()
    left, top = (int(torch.randint(SIDE - each, (), generator=random)) for each in (wide, high))
    return kind, wide, high, left, top


def _shape(kind: int, wide: int, high: int) -> Tensor:
    """Which pixels of its box a shape covers."""
    across = torch.linspace(-1, 1, wide)
    down = torch.linspace(-1, 1, high).unsqueeze(1)
    covers = (
        torch.ones(high, wide, dtype=torch.bool),
        across**2 + down**2 <= 1,
        across.abs() <= (down + 1) / 2,
    )
    return covers[kind]
