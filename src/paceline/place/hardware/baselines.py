"""What is compared with: known designs at the same area limit, with planned and fixed splits.

The TPUv4-like design defines the area limit; the GPU-like one spends it on many small cores, as
an A100 does (512 tensor cores of 16 x 16, as many 16-lane vector cores, 64 MiB). Splits are
(stages, tensor width), copies filling the rest; micro-batch is the best of the fleet's.
"""

from dataclasses import dataclass
from math import inf

from paceline.place.hardware.models import Chained
from paceline.place.hardware.plan import (
    GIB,
    NOTHING_FITS,
    AcceleratorFleet,
    ModelPlan,
    best_plan,
    fixed_plan,
    layers_of,
)
from paceline.place.hardware.schedule import optimal
from paceline.place.hardware.search import SearchSettings, layer_times
from paceline.place.hardware.template import Template

DESIGNS = {
    "TPUv4-like": Template(8, 2, 128, 128, 128),
    "GPU-like": Template(512, 512, 16, 16, 64),
}
SPLITS = ((1, 1), (1, 8), (2, 4), (4, 4), (8, 1), (8, 4), (8, 8))


@dataclass(frozen=True)
class DesignBaseline:
    """One design with one way to split, for one model."""

    name: str
    plan: ModelPlan


def baselines(
    model: Chained, fleet: AcceleratorFleet, settings: SearchSettings
) -> list[DesignBaseline]:
    """Every design with its best plan and with every fixed split."""
    found = []
    for name, template in DESIGNS.items():
        times = layer_times(template, lambda work: optimal(work, settings.effort))
        priced = {
            batch: layers_of(model, batch, fleet, template.hbm_gib * GIB, times)
            for batch in fleet.micro_batches
        }
        planned = [best_plan(layers, batch) for batch, layers in priced.items()]
        found.append(DesignBaseline(f"{name}, planned", _fastest(planned)))
        for stages, width in SPLITS:
            fixed = [fixed_plan(layers, b, stages, width) for b, layers in priced.items()]
            label = f"{name}, {stages} stages, width {width}"
            found.append(DesignBaseline(label, _fastest(fixed)))
    return [baseline for baseline in found if baseline.plan.seconds < inf]


def _fastest(plans: list[ModelPlan]) -> ModelPlan:
    return min(plans, key=lambda plan: plan.seconds, default=NOTHING_FITS)
