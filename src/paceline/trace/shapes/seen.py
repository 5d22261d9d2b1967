"""A trace's kernels as its profiler saw them: name, launch, call and how they ran."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.graph import NONE
from paceline.graph.work import Launch, Work
from paceline.trace.gpus import gpus_of
from paceline.trace.shapes import names, stated
from paceline.trace.shapes.contradictions import Ran
from paceline.trace.shapes.launches import is_graph_launch, launch_of
from paceline.trace.shapes.limits import PRODUCTS, limits_of
from paceline.trace.trace import Bool, Category, Int64
from paceline.trace.view import RankView, call_column


@dataclass(frozen=True, eq=False)
class SeenKernels:
    """A trace's kernels: how they were launched and how they ran, one row each."""

    view: RankView
    kernels: Int64  # rows of its events
    asked: Int64  # the calls that launched them; NONE where the trace has none, and for graphs
    launches: "Launches"
    ran: Ran

    @staticmethod
    def of(view: RankView) -> "SeenKernels":
        events = view.trace.events
        kernels = np.flatnonzero(np.isin(events.category, (Category.KERNEL, Category.MEMSET)))
        asked = call_column(view)[kernels]
        launches = Launches.of(view, kernels, asked)
        asked = np.where(launches.by_graph, NONE, asked)
        return SeenKernels(view, kernels, asked, launches, launches.ran(view, kernels))


@dataclass(frozen=True, eq=False)
class Launches:
    """Distinct kernels by name and launch, and which of them each is."""

    names: Sequence[str]
    launches: Sequence[Launch]
    stated: Sequence[Work | None]  # by the trace itself
    graphs: Sequence[bool]  # whether a graph of launches was launched
    which: Int64

    @staticmethod
    def of(view: RankView, kernels: Int64, asked: Int64) -> "Launches":
        events, trace = view.trace.events, view.trace
        driver = np.where(asked == NONE, NONE, events.name[asked])
        columns = np.stack([events.name[kernels], events.form[kernels], driver])
        distinct, which = np.unique(columns, axis=1, return_inverse=True)
        found = [
            launch_of(
                trace.forms[form] if form != NONE else b"{}",
                trace.names[call] if call != NONE else "",
            )
            for _, form, call in distinct.T.tolist()
        ]
        spelled = [trace.names[name] for name in distinct[0].tolist()]
        told = [
            stated.work_of(trace.forms[form]) if form != NONE else None
            for form in distinct[1].tolist()
        ]
        graphs = [
            call != NONE and is_graph_launch(trace.names[call]) for call in distinct[2].tolist()
        ]
        return Launches(spelled, found, told, graphs, which.reshape(-1))

    def ran(self, view: RankView, kernels: Int64) -> Ran:
        events = view.trace.events
        rooms = map(names.capacity_of, self.names, self.launches)
        return Ran(
            room=np.array([room.elements if room else 0 for room in rooms], np.int64)[self.which],
            blocks=np.array([each.blocks for each in self.launches], np.int64)[self.which],
            dur_ns=events.end_ns[kernels] - events.start_ns[kernels],
            limits=limits_of(gpus_of(view.trace)),
        )

    @property
    def by_graph(self) -> Bool:
        return np.array(self.graphs, np.bool_)[self.which]

    @property
    def has_own_family(self) -> Bool:
        """Products by name: shapes that no rule reads cannot tell their inner dimension."""
        own = [names.family_of(name) in PRODUCTS for name in self.names]
        return np.array(own, np.bool_)[self.which]
