"""Processes that we start: each under a supervisor, so that nothing of them outlives us."""

from paceline.launch.loopback import first_of
from paceline.launch.process import LaunchError, Process
from paceline.launch.running import Running, run, start
from paceline.launch.signals import handled, unwinding
from paceline.launch.watch import Late, watch

__all__ = [
    "Late",
    "LaunchError",
    "Process",
    "Running",
    "first_of",
    "handled",
    "run",
    "start",
    "unwinding",
    "watch",
]
