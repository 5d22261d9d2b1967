"""`Template`: an accelerator as a few numbers, its area, and the space of all of them.

Tensor cores are systolic arrays of `depth` x `width` multiply-add cells, vector cores have `width`
lanes, a shared buffer feeds both. The area model is linear; its two coefficients come from the
published corners of the search space (1 tensor and 1 vector core of 2 x 2 with 2 MiB: 3.36 mm2;
8 and 2 of 128 x 128 with 128 MiB: 278.8 mm2).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

BUFFER_UM2_PER_MIB = 1.677e6
CELL_UM2 = 485.0  # a multiply-add cell, or a lane of a vector core
CLOCK_HZ = 1.05e9
HBM_BYTES_PER_S = 1.2e12

CORES = tuple(2**i for i in range(13))
SIDES = tuple(2**i for i in range(1, 9))
BUFFERS_MIB = tuple(2**i for i in range(1, 8))


@dataclass(frozen=True)
class Template:
    """One accelerator design."""

    tensor_cores: int
    vector_cores: int
    width: int
    depth: int
    buffer_mib: int
    hbm_gib: int = 32

    @property
    def area_um2(self) -> float:
        cells = self.tensor_cores * self.width * self.depth + self.vector_cores * self.width
        return cells * CELL_UM2 + self.buffer_mib * BUFFER_UM2_PER_MIB

    @property
    def peak_flops(self) -> float:
        """Multiply-adds count as two."""
        return 2.0 * self.tensor_cores * self.width * self.depth * CLOCK_HZ

    def __str__(self) -> str:
        return (
            f"{self.tensor_cores} tensor cores {self.depth}x{self.width}, "
            f"{self.vector_cores} vector cores, {self.buffer_mib} MiB, {self.hbm_gib} GiB HBM"
        )


AREA_LIMIT_UM2 = Template(8, 2, 128, 128, 128).area_um2
"""The paper's limit: a TPUv4-like design."""


def templates(limit_um2: float = AREA_LIMIT_UM2, hbm_gib: int = 32) -> Iterator[Template]:
    """Every design below the limit, and above 0.3 of it unless it has one core of a kind."""
    for tensor, vector, width, depth, buffer in product(CORES, CORES, SIDES, SIDES, BUFFERS_MIB):
        made = Template(tensor, vector, width, depth, buffer, hbm_gib)
        small = made.area_um2 < 0.3 * limit_um2 and tensor > 1 and vector > 1
        if made.area_um2 <= limit_um2 and not small:
            yield made
