"""What gathered weights take, and for how long."""

import numpy as np

from paceline.graph.fully_sharded.calls import Calls
from paceline.graph.graph import Graph, Int64, MemoryEvents
from paceline.graph.kinds import NONE, Collective, DeviceKind, MemoryCategory


def with_gathered(graph: Graph, calls: Calls) -> MemoryEvents:
    """Gathered weights are there from the call on, until its pass is over."""
    memory = graph.memory
    gathers = np.flatnonzero((calls.kind == Collective.ALL_GATHER) & (calls.until != NONE))
    if not len(memory.op) or not len(gathers):
        return memory
    taken, left = calls.thread[gathers], calls.until[gathers]
    op, size = np.concatenate([taken, left]), calls.size_bytes[gathers]
    device = _device_of_rank(graph)[graph.ops.rank[op]]
    count = len(gathers)
    made = MemoryEvents(
        np.concatenate([memory.op, op]).astype(np.int32),
        np.concatenate([memory.device, device]).astype(np.int32),
        np.concatenate([memory.delta_bytes, size, -size]),
        np.concatenate([memory.category, np.full(2 * count, MemoryCategory.COMMUNICATION)]).astype(
            np.uint8
        ),
        np.concatenate([memory.at_end, np.repeat([False, True], count)]),
    )
    order = np.argsort(made.op, kind="stable")
    return MemoryEvents(*(column[order] for column in vars(made).values()))


def _device_of_rank(graph: Graph) -> Int64:
    """Where each rank's ops allocate: on its accelerator, where it has one."""
    memory = graph.memory
    gpu = np.array([device.kind is DeviceKind.GPU for device in graph.devices], np.bool_)
    order = np.argsort(gpu[memory.device], kind="stable")  # what is on a device comes last
    found = np.zeros(max(graph.ranks) + 1, np.int64)
    found[graph.ops.rank[memory.op[order]]] = memory.device[order]
    return found
