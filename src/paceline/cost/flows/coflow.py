"""A whole collective as one flow: its bytes on every link at once, and its fixed time as the tail.

Replay with flows keeps one of these under way for each collective or message, so that collectives
that overlap share links. Alone it takes the closed form's time wherever its rounds are alike.
"""

from collections.abc import Sequence

import numpy as np

from paceline.cluster import Network
from paceline.cost.collectives import Algorithm, Call, Library, link_bytes
from paceline.cost.collectives.closed import closed_ns
from paceline.cost.flows.table import Flow


def coflow(
    algorithm: Algorithm, call: Call, network: Network, workers: Sequence[int], library: Library
) -> Flow:
    """The flow that stands for one call."""
    if call.members < 2:
        return Flow(0.0, {}, round(library.call_ns))
    load = link_bytes(algorithm, call, network, workers)
    used = np.flatnonzero(load)
    alone = closed_ns(algorithm, call, network, workers, library)
    if not len(used):
        return Flow(0.0, {}, round(alone))
    seconds = load[used] / network.bytes_per_s[used]
    busiest = used[int(np.argmax(seconds))]
    weights = {int(link): float(load[link] / load[busiest]) for link in used}
    fixed = max(0.0, alone - float(seconds.max()) * 1e9)
    return Flow(float(load[busiest]), weights, round(fixed))
