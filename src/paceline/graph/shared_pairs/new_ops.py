"""`New`: what the ops of all new calls are made of."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from paceline.graph.graph import Graph, Int64
from paceline.graph.kinds import NONE, Collective, DType, OpKind
from paceline.graph.new_calls import PLAIN, handed_ns
from paceline.graph.rank_steps import RankSteps, firsts
from paceline.graph.rebucket.source import source_of


class Turn(IntEnum):
    """What is done for a call, in order."""

    PACK = 0
    HAND = 1
    CALL = 2
    WAIT = 3
    TAKE = 4
    HAND_PART = 5
    REDUCE = 6
    WAIT_PART = 7


NAMES = ("take own rows", "hand rows over", "rows of a pair", "wait for rows", "take rows in",
         "hand a part over", "reduce a part", "wait for a part")  # fmt: skip
"""By turn."""


@dataclass(frozen=True, eq=False)
class Talk:
    """How the job talks before its pairs are cut."""

    lanes: Int64  # by rank: one on which it reduces gradients
    handed_ns: int  # what a thread takes to hand a collective over


def talk_of(graph: Graph) -> Talk:
    source = source_of(graph)
    first = source.first[source.first != NONE]
    lanes = firsts(graph.ops.rank[first], graph.ops.lane[first], graph.world_size)
    return Talk(lanes, handed_ns(graph, source))


@dataclass(frozen=True, eq=False)
class New:
    """What the new ops are made of."""

    graph: Graph  # with their names, lanes and groups
    talk: Talk
    degree: int
    steps: RankSteps
    launcher: Int64

    def instances(self, step: Int64, number: Int64) -> Int64:
        """What joins the ranks' parts of calls of a step, numbered within their group."""
        keys = np.stack([self.steps.step[step], number])
        joined: Int64 = np.unique(keys, axis=1, return_inverse=True)[1].reshape(-1)
        return joined


def plain(new: New, like: Int64, behind: Int64, turn: Turn) -> dict[str, object]:
    return {
        **PLAIN,
        "like": like,
        "behind": behind,
        "kind": OpKind.HOST,
        "dur_ns": 0,
        "lane": new.graph.ops.lane[like],
        "size_bytes": 0,
        "collective": Collective.NONE,
        "dtype": DType.NONE,
        "group": NONE,
        "instance": NONE,
        "name": len(new.graph.names) - len(NAMES) + turn,
        "layer": NONE,
    }
