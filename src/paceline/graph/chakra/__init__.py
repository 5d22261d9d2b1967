"""Chakra execution traces: one `.et` file a rank, as ASTRA-sim's feeder reads them.

write_chakra(graph, "traces")         # traces/trace.0.et, trace.1.et, ..., comm_group.json
graph = read_chakra("traces")
"""

from paceline.graph.chakra.read import read_chakra
from paceline.graph.chakra.write import write_chakra

__all__ = ["read_chakra", "write_chakra"]
