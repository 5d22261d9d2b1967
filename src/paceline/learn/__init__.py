"""Workers that see different data or seldom meet: what that costs, and the time to a target.

`split` deals samples out to clients; `run` trains them by an `algorithm` on as many workers as
there are, and keeps a `LearnRun`; `rounds_as_graph` draws its rounds as a graph, and `forecast`
says when a target is reached on a cluster. Files named `torch_*` need torch.
"""

from paceline.learn.algorithm import Algorithm, Meeting, Peers, Served, Setting
from paceline.learn.algorithms import ALGORITHMS, algorithm
from paceline.learn.chances import Chances
from paceline.learn.client import Client
from paceline.learn.curve import Reach, reach
from paceline.learn.errors import LearnError
from paceline.learn.fashion_mnist import fashion_mnist
from paceline.learn.forecast import Forecast, forecast, ranked
from paceline.learn.partition import ByClass, BySource, Dirichlet, Equal, Partition, Split, split
from paceline.learn.record import LearnRun, load, save
from paceline.learn.round_graph import rounds_as_graph
from paceline.learn.running import run
from paceline.learn.samples import Samples
from paceline.learn.task import Task
from paceline.learn.times import RoundTime, round_time

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "ByClass",
    "BySource",
    "Chances",
    "Client",
    "Dirichlet",
    "Equal",
    "Forecast",
    "LearnError",
    "LearnRun",
    "Meeting",
    "Partition",
    "Peers",
    "Reach",
    "RoundTime",
    "Samples",
    "Served",
    "Setting",
    "Split",
    "Task",
    "algorithm",
    "fashion_mnist",
    "forecast",
    "load",
    "ranked",
    "reach",
    "round_time",
    "rounds_as_graph",
    "run",
    "save",
    "split",
]
