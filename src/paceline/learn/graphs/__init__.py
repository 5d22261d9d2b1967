"""Graph networks whose nodes lie on several workers: parts, what borders on them, and training.

A node's features and label lie in an `Attributed` graph; `parted` deals its nodes out; `Parts` says
which nodes of others each part needs in every layer (its halo). `torch_training` trains.
"""

from paceline.learn.graphs.attributed import Attributed, Neighbourhood, nearest_neighbours
from paceline.learn.graphs.parting import Parting, parted
from paceline.learn.graphs.parts import GraphPart, Parts, parts_of

__all__ = [
    "Attributed",
    "GraphPart",
    "Neighbourhood",
    "Parting",
    "Parts",
    "nearest_neighbours",
    "parted",
    "parts_of",
]
