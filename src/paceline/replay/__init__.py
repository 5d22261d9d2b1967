"""When each op runs: replay of a graph into a timeline."""

from paceline.replay.breakdown import Breakdown
from paceline.replay.draws import Distribution, Sampling, replay_many
from paceline.replay.engine import Engine, replay
from paceline.replay.live import Live
from paceline.replay.memory import MemoryCurve
from paceline.replay.paths import CriticalPath, Reason
from paceline.replay.timeline import Occupancy, Timeline

__all__ = [
    "Breakdown",
    "CriticalPath",
    "Distribution",
    "Engine",
    "Live",
    "MemoryCurve",
    "Occupancy",
    "Reason",
    "Sampling",
    "Timeline",
    "replay",
    "replay_many",
]
