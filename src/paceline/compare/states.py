"""What each rank was doing, whatever the step hangs on: its states sum to the recorded step."""

from dataclasses import dataclass

import numpy as np

from paceline.compare.places import Float64
from paceline.graph import NONE
from paceline.replay import Timeline


@dataclass(frozen=True, eq=False)
class States:
    """ns a step, by column: computes, transfers alone, waits for ranks, loads input, none of it."""

    ranks: tuple[int, ...]
    state_ns: Float64  # ranks x 5


def states_of(timeline: Timeline) -> States:
    found, ops = timeline.breakdown, timeline.graph.ops
    columns = (
        found.overlapped_ns + found.exposed_compute_ns,
        found.exposed_transfer_ns,
        found.waiting_ns,
        found.data_loading_ns,
        found.idle_ns,
    )
    steps = max(1, len(np.unique(ops.step[ops.step != NONE])))
    return States(found.ranks, np.stack(columns, axis=1) / steps)
