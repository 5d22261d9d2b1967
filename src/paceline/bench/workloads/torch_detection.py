"""A one-stage detector (as YOLO and FCOS): every cell of a grid tells object, class and box.

Scenes are composed: one to three squares, discs and triangles of any colour, size and place.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from paceline.bench.boxes import Found, mean_average_precision
from paceline.bench.torch_data import endless
from paceline.bench.torch_parallel import Judging, plain, replicated, supervised
from paceline.bench.torch_scenes import GRID, KINDS, SIDE, STRIDE, Scenes, scenes
from paceline.bench.torch_training import train
from paceline.bench.workload import Domain, Pace, Quality, Setup, Training, Workload

WIDTHS = (16, 32, 64)
_TRAINED, _TESTED = 2048, 64
_SURE = 0.05  # of an object, to be counted


def network() -> nn.Module:
    """Three stages to an eighth of the side; out come objectness, classes and box of each cell."""
    parts: list[nn.Module] = []
    width = 3
    for out in WIDTHS:
        for inner, stride in ((width, 2), (out, 1)):
            conv = nn.Conv2d(inner, out, 3, stride, 1, bias=False)
            parts += [conv, nn.BatchNorm2d(out), nn.ReLU()]
        width = out
    return nn.Sequential(*parts, nn.Conv2d(width, 1 + KINDS + 4, 3, padding=1))


def build(setup: Setup) -> Training:
    test, model = scenes(_TESTED, 2), replicated(network(), setup)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def loss(batch: tuple[Tensor, ...]) -> Tensor:
        return detection_loss(model(batch[0]), batch[1])

    train_data = scenes(setup.samples or _TRAINED, 1)
    data = endless((train_data.pixels, train_data.cells), setup)
    return supervised(loss, optimizer, data, lambda: precision(model, test))


def detection_loss(told: Tensor, cells: Tensor) -> Tensor:
    """Objectness everywhere; class and box where a cell holds an object's middle. `cells` has
    class (-1: none) and box, as middle within the cell and size, all over the stride."""
    kind, box = cells[:, 0].long(), cells[:, 1:]
    there = kind >= 0
    objects = functional.binary_cross_entropy_with_logits(told[:, 0], there.float())
    rows = told.permute(0, 2, 3, 1)[there]
    classes = functional.cross_entropy(rows[:, 1 : 1 + KINDS], kind[there])
    boxes = functional.smooth_l1_loss(rows[:, 1 + KINDS :], box.permute(0, 2, 3, 1)[there])
    return 10 * objects + classes + 5 * boxes


def precision(model: nn.Module, test: Scenes) -> float:
    with Judging(plain(model)):
        told = plain(model)(test.pixels)
    return mean_average_precision([found_in(each) for each in told], test.objects, KINDS)


def found_in(told: Tensor) -> list[Found]:
    """The boxes that the cells of one scene tell, in pixels."""
    sure = told[0].sigmoid()
    kinds = told[1 : 1 + KINDS].softmax(0)
    found = []
    for row, column in (sure > _SURE).nonzero().tolist():
        right, down, wide, high = (STRIDE * told[1 + KINDS :, row, column]).tolist()
        middle = (column * STRIDE + right, row * STRIDE + down)
        box = (middle[0] - wide / 2, middle[1] - high / 2, middle[0] + wide / 2,
               middle[1] + high / 2)  # fmt: skip
        kind = int(kinds[:, row, column].argmax())
        found.append(Found(kind, float(sure[row, column] * kinds[kind, row, column]), box))
    return found


WORKLOAD = Workload(
    name="detection",
    domain=Domain.DETECTION,
    model=f"one-stage detector, six convolutions, grid of {GRID} by {GRID}",
    data=f"composed scenes of {SIDE} by {SIDE} pixels",
    quality=Quality("mean average precision at 0.5", 0.85),
    pace=Pace(batch=16, batches=(4, 8, 16, 32, 64), steps=1000, every=50),
    build=build,
)

if __name__ == "__main__":
    train(WORKLOAD)
