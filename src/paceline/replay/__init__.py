"""When each op runs: replay of a graph into a timeline."""

from paceline.callable_room import callable_room
from paceline.replay.breakdown import Breakdown
from paceline.replay.contention import Contention, Slowdown
from paceline.replay.draws import Distribution, Sampling, replay_many
from paceline.replay.engine import Engine, NetworkModel, replay
from paceline.replay.flows import flows
from paceline.replay.hosts import SharedHosts
from paceline.replay.live import Live
from paceline.replay.memory import MemoryCurve
from paceline.replay.messages import Shaping
from paceline.replay.pace import Pace, Transfers
from paceline.replay.paths import CriticalPath, Reason
from paceline.replay.shaped import shaped_links
from paceline.replay.timeline import Occupancy, Timeline

__all__ = [
    "Breakdown",
    "Contention",
    "CriticalPath",
    "Distribution",
    "Engine",
    "Live",
    "MemoryCurve",
    "NetworkModel",
    "Occupancy",
    "Pace",
    "Reason",
    "Sampling",
    "Shaping",
    "SharedHosts",
    "Slowdown",
    "Timeline",
    "Transfers",
    "flows",
    "replay",
    "replay_many",
    "shaped_links",
]

callable_room(__name__)
