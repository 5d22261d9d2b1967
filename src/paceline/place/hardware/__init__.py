"""Hardware and placement together: accelerator templates, estimates, schedules, plans, search."""

from paceline.place.hardware.baselines import DESIGNS, Baseline, baselines
from paceline.place.hardware.models import BERT_LARGE, GPT2_54, Model
from paceline.place.hardware.plan import Fleet, Plan, Stage
from paceline.place.hardware.search import Design, Search, Settings, search
from paceline.place.hardware.template import AREA_LIMIT_UM2, Template, templates

__all__ = [
    "AREA_LIMIT_UM2",
    "BERT_LARGE",
    "DESIGNS",
    "GPT2_54",
    "Baseline",
    "Design",
    "Fleet",
    "Model",
    "Plan",
    "Search",
    "Settings",
    "Stage",
    "Template",
    "baselines",
    "search",
    "templates",
]
