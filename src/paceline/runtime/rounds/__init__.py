"""Weights exchanged now and then in place of gradients, in a live job.

`Merge` is what a method does with weights; `torch_driver` says when, by the same `Rounds` that a
graph is changed by.
"""

from paceline.runtime.rounds.merge import Merge, ReplicaFragment, WeightRounds

__all__ = ["Merge", "ReplicaFragment", "WeightRounds"]
