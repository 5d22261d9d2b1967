"""When each op runs: replay of a graph into a timeline."""

from paceline.replay.engine import Engine, replay
from paceline.replay.timeline import Timeline

__all__ = ["Engine", "Timeline", "replay"]
