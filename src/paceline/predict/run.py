"""`Replayer`: a replay that has yet to be told how long each op takes."""

from dataclasses import dataclass

from paceline.cluster.machine import NO_COST, Rests
from paceline.graph import Graph
from paceline.graph.graph import Int64
from paceline.predict.rests import after_rests_ns
from paceline.replay import Contention, Timeline, Transfers, replay
from paceline.replay.hosts import SharedHosts


@dataclass(frozen=True, eq=False)
class Replayer:
    """How a graph is replayed. Where rests cost something a first replay shows which work follows
    one, a second one prices it."""

    graph: Graph
    contention: Contention | None = None
    hosts: SharedHosts | None = None
    transfers: Transfers | None = None
    rests: Rests = NO_COST

    def __call__(self, dur_ns: Int64) -> Timeline:
        timeline = self._replayed(dur_ns)
        if not self.rests.cost:
            return timeline
        return self._replayed(after_rests_ns(timeline, self.rests))

    def _replayed(self, dur_ns: Int64) -> Timeline:
        return replay(
            self.graph,
            prices=dur_ns,
            contention=self.contention,
            transfers=self.transfers,
            hosts=self.hosts,
        )
