"""A cluster on one machine: network namespaces, shaped links, and workers launched in them."""

from paceline.lab.errors import LabError, WorkerError
from paceline.lab.lab import Lab, said
from paceline.lab.launch import Finished, WorkerCommand
from paceline.lab.layout import End, Layout, Node, Stack, Wire
from paceline.lab.plan import plan
from paceline.lab.teardown import standing, tear_down

__all__ = [
    "End",
    "Finished",
    "Lab",
    "LabError",
    "Layout",
    "Node",
    "Stack",
    "Wire",
    "WorkerCommand",
    "WorkerError",
    "plan",
    "said",
    "standing",
    "tear_down",
]
