"""Input of a training: data sets to a description, real loaders on them, and what they cost.

Description -> files -> run -> graph: a run's batches become the ops of a graph, so that whatever
changes a graph changes its input too.
"""

from paceline.feed.description import Description, load, scaled, shipped
from paceline.feed.errors import FeedError
from paceline.feed.generate import DataSet, fitted, generate, open_data
from paceline.feed.run import Batch, Computing, FeedRun, Loading
from paceline.feed.utilisation import Utilisation, utilisation

__all__ = [
    "Batch",
    "Computing",
    "DataSet",
    "Description",
    "FeedError",
    "FeedRun",
    "Loading",
    "Utilisation",
    "fitted",
    "generate",
    "load",
    "open_data",
    "scaled",
    "shipped",
    "utilisation",
]
