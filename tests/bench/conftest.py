"""Points as a sweep would have measured them, drawn by hand."""

from collections.abc import Callable

import pytest

from paceline.analyse.structure import Structure
from paceline.analyse.usage import Usage
from paceline.bench.point import Key, Point

MakePoint = Callable[..., Point]


@pytest.fixture
def point() -> MakePoint:
    def made(
        batch: int, samples_per_s: float = 100.0, mb: int = 100, name: str = "vit", workers: int = 1
    ) -> Point:
        """A third of the memory is weights, the rest activations."""
        step_ns = batch * workers / samples_per_s * 1e9
        usage = Usage(step_ns, 0.7, 0.1, 0.5, 0.05, 0.05, 0.1, 0.1, 1000, 0.5, 2)
        parts = {"weights": 33_000_000, "activations": mb * 1_000_000 - 33_000_000}
        held = Structure(0, mb * 1_000_000, parts, "aten::mm", "forward", "layers.1")
        return Point(Key(name, batch, workers), usage, None, held, ())

    return made
