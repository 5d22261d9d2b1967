"""Transformations: each takes a program and returns a new one that computes the same, or a
`Refusal` with its reason. One idea a file; its rules stand where they are checked."""

from paceline.weave.transforms.dead import dead
from paceline.weave.transforms.fuse import between, fuse
from paceline.weave.transforms.overlap import overlap
from paceline.weave.transforms.p2p import p2p
from paceline.weave.transforms.refusal import Refusal, applied
from paceline.weave.transforms.reorder import reorder
from paceline.weave.transforms.slice import slice_state
from paceline.weave.transforms.split import SplitInto, split

__all__ = [
    "Refusal",
    "SplitInto",
    "applied",
    "between",
    "dead",
    "fuse",
    "overlap",
    "p2p",
    "reorder",
    "slice_state",
    "split",
]
