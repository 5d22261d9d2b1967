"""A measured GPU: tables of its kernels in a folder, and the forecasts that they refine."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from paceline.cost.forecast.refining import Refined, refine_shipped
from paceline.cost.forecast.tables import samples
from paceline.graph.facts import RecordedGpu
from paceline.measure.gpu_tables import Timed, write_tables

CONSTANTS: Final = "constants.npz"


def measured_gpu(
    folder: Path, gpu: RecordedGpu, timed: Iterable[Timed], call_ns: float = 0.0
) -> tuple[Refined, ...]:
    """What measuring brought, by kind of operators; `folder/constants.npz` holds it. `call_ns`:
    what its host spends on a call of an operator, where that was measured."""
    name = write_tables(folder, gpu, list(timed))
    calls = {name: call_ns} if call_ns else {}
    source = f"kernels measured on this {name}"
    return refine_shipped(samples(folder), source, folder / CONSTANTS, calls)
