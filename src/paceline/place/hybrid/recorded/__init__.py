"""A recorded or imagined job as the planner's model: its repeated blocks, their dimensions and,
where it was recorded, their times.

    found = recorded_model(open_run("runs/a"), RecordedAs("runs/a"))
    plan(found.question(site_of(cluster)))
"""

from paceline.place.hybrid.recorded.blocks import Blocks, blocks_of
from paceline.place.hybrid.recorded.dimensions import Described, described
from paceline.place.hybrid.recorded.job import RecordedAs, RecordedModel, Spent, recorded_model
from paceline.place.hybrid.recorded.routing import routing_of

__all__ = [
    "Blocks",
    "Described",
    "RecordedAs",
    "RecordedModel",
    "Spent",
    "blocks_of",
    "described",
    "recorded_model",
    "routing_of",
]
