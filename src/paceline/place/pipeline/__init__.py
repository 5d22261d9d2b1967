"""Pipelines: which layers on which stage, under which schedule, at what price.

`planner` is PipeDream-2BW's, `hierarchical` PipeDream's; `price` gives each plan the published
formula's price and the replayed one side by side.
"""

from paceline.place.pipeline.draw import draw
from paceline.place.pipeline.errors import PlanError
from paceline.place.pipeline.formulas import PipelinePlan, Wires, memory_bytes, step_ns
from paceline.place.pipeline.hierarchical import (
    HierarchicalPlan,
    Level,
    StagePlan,
    plan_hierarchical,
)
from paceline.place.pipeline.packing import WHOLE, Borders, Packing
from paceline.place.pipeline.planner import Fleet, Search, plan_pipeline
from paceline.place.pipeline.price import (
    Priced,
    price,
    price_in_lab,
    price_on_cores,
)
from paceline.place.pipeline.profile import (
    LayerCost,
    PipelineProfile,
    profile_from_data,
    profile_to_data,
    read_profile,
)
from paceline.place.pipeline.recorded import profile_of

__all__ = [
    "WHOLE",
    "Borders",
    "Fleet",
    "HierarchicalPlan",
    "LayerCost",
    "Level",
    "Packing",
    "PipelinePlan",
    "PipelineProfile",
    "PlanError",
    "Priced",
    "Search",
    "StagePlan",
    "Wires",
    "draw",
    "memory_bytes",
    "plan_hierarchical",
    "plan_pipeline",
    "price",
    "price_in_lab",
    "price_on_cores",
    "profile_from_data",
    "profile_of",
    "profile_to_data",
    "read_profile",
    "step_ns",
]
