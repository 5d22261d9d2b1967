"""`RoundOps`: the ops that rounds are drawn of, on the lanes, links and groups of their ranks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from paceline.graph import (
    UNPRICED,
    Collective,
    Facts,
    Graph,
    GraphBuilder,
    LaneKind,
    OpKind,
    Phase,
    check,
)
from paceline.graph.kinds import DType


@dataclass(frozen=True)
class Letter:
    """One message between ranks, of both ends."""

    name: str
    step: int
    ends: tuple[int, int]
    instance: int
    size_bytes: int


@dataclass(eq=False)
class RoundOps:
    """A graph under construction."""

    source: str
    ranks: int
    b: GraphBuilder = field(init=False)
    links: dict[tuple[int, int, LaneKind], int] = field(default_factory=dict)
    groups: dict[tuple[int, ...], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        facts = Facts(world_size=self.ranks, steps_overlap=True)
        self.b = GraphBuilder({"source": self.source}, facts)
        everyone = range(self.ranks)
        self.lanes = {r: self.b.lane(r, "clients") for r in everyone}
        self.calls = {r: self.b.lane(r, "sums", kind=LaneKind.COMM_THREAD) for r in everyone}

    def graph(self) -> Graph:
        return check(self.b.build())

    def worked(self, name: str, rank: int, step: int, took_ns: float, **told: Any) -> int:
        """Work on a rank's thread, and the wait for its core behind it, which is returned."""
        self.b.op(name, self.lanes[rank], round(took_ns), step=step, **told)
        return self.b.op("no core", self.lanes[rank], kind=OpKind.CORE_WAIT, step=step)

    def stood(self, name: str, rank: int, step: int, took_ns: float) -> int:
        """A thread that does nothing of a round."""
        return self.b.op(name, self.lanes[rank], round(took_ns), kind=OpKind.WAIT, step=step)

    def end(self, kind: OpKind, letter: Letter) -> int:
        """One end of a message."""
        source, target = letter.ends
        return self.b.op(
            letter.name,
            self._link(source, target, LaneKind.LINK_OUT)
            if kind is OpKind.SEND
            else self._link(target, source, LaneKind.LINK_IN),
            UNPRICED,
            kind=kind,
            phase=Phase.COMMUNICATION,
            collective=Collective.POINT_TO_POINT,
            dtype=DType.UINT8,
            size_bytes=letter.size_bytes,
            group=self._group(letter.ends),  # a message goes from the first to the second
            instance=letter.instance,
            step=letter.step,
        )

    def called(
        self, step: int, size: int, done: Mapping[int, int], call: tuple[str, Collective]
    ) -> dict[int, int]:
        """A collective of all ranks; by rank its part."""
        instance, group = self.b.instance(), self._group(tuple(range(self.ranks)))
        name, collective = call
        return {
            rank: self.b.op(
                name,
                self.calls[rank],
                UNPRICED,
                after=[done[rank]] if rank in done else (),
                kind=OpKind.COLLECTIVE,
                phase=Phase.COMMUNICATION,
                collective=collective,
                dtype=DType.FLOAT32,
                size_bytes=size,
                group=group,
                instance=instance,
                step=step,
            )
            for rank in range(self.ranks)
        }

    def _link(self, rank: int, other: int, way: LaneKind) -> int:
        key = (rank, other, way)
        if key not in self.links:
            name = f"to rank {other}" if way is LaneKind.LINK_OUT else f"from rank {other}"
            self.links[key] = self.b.lane(rank, name, kind=way)
        return self.links[key]

    def _group(self, ranks: tuple[int, ...]) -> int:
        if ranks not in self.groups:
            self.groups[ranks] = self.b.group(f"ranks {ranks}", ranks)
        return self.groups[ranks]
