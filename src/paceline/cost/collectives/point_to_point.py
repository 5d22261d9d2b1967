"""One message from the first member to the second: a + S / B."""

from dataclasses import dataclass
from typing import ClassVar

from paceline.cost.collectives.algorithm import Algorithm, Call, Round, messages
from paceline.graph.kinds import Collective


@dataclass(frozen=True)
class PointToPoint(Algorithm):
    name: ClassVar[str] = "point-to-point"
    serves: ClassVar[frozenset[Collective]] = frozenset({Collective.POINT_TO_POINT})

    def rounds(self, call: Call) -> list[Round]:
        return [messages([(0, 1)], call.size_bytes)]
