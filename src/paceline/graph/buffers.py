"""`with_buffers`: what communication takes in memory from one op to another."""

import numpy as np

from paceline.graph.graph import Graph, Int64, MemoryEvents
from paceline.graph.kinds import DeviceKind, MemoryCategory


def with_buffers(graph: Graph, taken: Int64, left: Int64, size_bytes: Int64) -> MemoryEvents:
    """The graph's memory events, and one buffer a row: there before an op, and until behind
    another. A recording that tells no memory stays without."""
    memory = graph.memory
    if not len(memory.op) or not len(taken):
        return memory
    op, count = np.concatenate([taken, left]), len(taken)
    device = _device_of_rank(graph)[graph.ops.rank[op]]
    category = np.full(2 * count, MemoryCategory.COMMUNICATION)
    made = MemoryEvents(
        np.concatenate([memory.op, op]).astype(np.int32),
        np.concatenate([memory.device, device]).astype(np.int32),
        np.concatenate([memory.delta_bytes, size_bytes, -size_bytes]),
        np.concatenate([memory.category, category]).astype(np.uint8),
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
