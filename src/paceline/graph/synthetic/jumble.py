"""Small random graphs with every feature at once, for tests of engines, edits and files.

Lanes of both disciplines, all dependency kinds, collectives and messages, drains, memory, samples,
priorities, durations of 0 and beyond 2^32. Lawful, though replay may find ops that wait for each
other for ever: a lane can be drained by the very op that its work waits for.
"""

import numpy as np

from paceline.graph.builder import GraphBuilder
from paceline.graph.graph import Graph
from paceline.graph.kinds import (
    Collective,
    DepKind,
    Discipline,
    DType,
    LaneKind,
    MemoryCategory,
    OpKind,
    Phase,
)

_ALONE = (OpKind.COMPUTE, OpKind.HOST, OpKind.TRANSFER, OpKind.COPY, OpKind.WAIT, OpKind.DATA)


def jumble(seed: int, *, longest: int = 40, recorded: bool = False) -> Graph:
    """A graph of up to `longest` draws; `recorded` leaves out priority lanes and drains."""
    jumbling = _Jumbling(np.random.default_rng(seed), recorded)
    for _ in range(1 + jumbling.below(longest)):
        jumbling.add()
    return jumbling.b.build()


class _Jumbling:
    """A graph under construction."""

    def __init__(self, random: np.random.Generator, recorded: bool) -> None:
        self.random, self.recorded = random, recorded
        self.b = GraphBuilder({"source": "jumble"})
        self.ranks = 1 + self.below(4)
        self.lanes = [self._lanes(rank) for rank in range(self.ranks)]
        self.group = self.b.group("all", range(self.ranks))
        self.made: list[int] = []
        self.unit = 2**33 if self.chance(0.05) else 1  # now and then beyond 32 bits

    def below(self, limit: int) -> int:
        return int(self.random.integers(limit))

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def add(self) -> None:
        """One op, message or collective."""
        made = self.made
        after = sorted({made[self.below(len(made))] for _ in range(self.below(3)) if made})
        if self.chance(0.1):
            self._collective(after)
        elif self.chance(0.1) and self.ranks > 1:
            self._message(after)
        else:
            self._alone(after)

    def _lanes(self, rank: int) -> list[int]:
        """The first lane of a rank is in recorded order and takes the joined ops: those of one
        rank then cannot overtake each other."""
        count = 1 + self.below(3)
        free = (Discipline.RECORDED,) if self.recorded else tuple(Discipline)
        return [
            self.b.lane(
                rank,
                f"lane {lane}",
                kind=LaneKind(self.below(len(LaneKind))),
                discipline=free[self.below(len(free))] if lane else Discipline.RECORDED,
            )
            for lane in range(count)
        ]

    def _duration(self) -> int:
        return self.below(6) * self.unit

    def _alone(self, after: list[int]) -> None:
        rank = self.below(self.ranks)
        lane = self.lanes[rank][self.below(len(self.lanes[rank]))]
        op = self.b.op(
            f"op {len(self.made)}",
            lane,
            self._duration(),
            kind=_ALONE[self.below(len(_ALONE))],
            phase=Phase(self.below(len(Phase))),
            layer=f"layer {self.below(3)}",
            priority=self.below(3),
        )
        for src in after:
            launch = self.chance(0.3)
            self.b.link(src, op, DepKind.LAUNCH if launch else DepKind(self.below(len(DepKind))))
        self._extras(op, lane)
        self.made.append(op)

    def _extras(self, op: int, lane: int) -> None:
        others = [other for lanes in self.lanes for other in lanes if other != lane]
        if others and not self.recorded and self.chance(0.1):
            self.b.drain(op, others[self.below(len(others))])
        if self.chance(0.3):
            size, category = 64 * (1 + self.below(4)), MemoryCategory(self.below(3))
            self.b.allocate(op, size, category, at_end=self.chance(0.2))
            self.b.allocate(op, -size, category, at_end=True)
        if self.chance(0.4):
            self.b.samples(op, [self._duration() for _ in range(1 + self.below(4))])

    def _collective(self, after: list[int]) -> None:
        instance, size = self.b.instance(), 64 * self.below(4)
        for rank in range(self.ranks):
            op = self.b.op(
                "all_reduce",
                self.lanes[rank][0],
                self._duration(),
                after=[src for src in after if self.chance(0.7)],
                kind=OpKind.COLLECTIVE,
                phase=Phase.COMMUNICATION,
                collective=Collective.ALL_REDUCE,
                dtype=DType.FLOAT32,
                size_bytes=size,
                group=self.group,
                instance=instance,
            )
            self.made.append(op)

    def _message(self, after: list[int]) -> None:
        instance, size = self.b.instance(), 64 * self.below(4)
        source, target = self.random.permutation(self.ranks)[:2].tolist()
        for kind, rank in ((OpKind.SEND, source), (OpKind.RECV, target)):
            op = self.b.op(
                kind.name.lower(),
                self.lanes[rank][0],
                self._duration(),
                after=after if kind is OpKind.SEND else (),
                kind=kind,
                collective=Collective.POINT_TO_POINT,
                size_bytes=size,
                instance=instance,
            )
            self.made.append(op)
