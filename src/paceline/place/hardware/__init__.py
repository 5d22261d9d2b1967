"""Hardware and placement together: accelerator templates, estimates, schedules, plans, search."""

from paceline.place.hardware.baselines import DESIGNS, DesignBaseline, baselines
from paceline.place.hardware.described import DecoderModel
from paceline.place.hardware.models import BERT_LARGE, GPT2_54, MODELS, Chained, UniformModel
from paceline.place.hardware.plan import AcceleratorFleet, ModelPlan, StagePlan
from paceline.place.hardware.search import (
    Design,
    SearchProgress,
    SearchResult,
    SearchSettings,
    search,
)
from paceline.place.hardware.template import AREA_LIMIT_UM2, Template, templates

__all__ = [
    "AREA_LIMIT_UM2",
    "BERT_LARGE",
    "DESIGNS",
    "GPT2_54",
    "MODELS",
    "AcceleratorFleet",
    "Chained",
    "DecoderModel",
    "Design",
    "DesignBaseline",
    "ModelPlan",
    "SearchProgress",
    "SearchResult",
    "SearchSettings",
    "StagePlan",
    "Template",
    "UniformModel",
    "baselines",
    "search",
    "templates",
]
