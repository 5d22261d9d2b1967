"""What a page that shows a run carries: its graph, packed, and what its engine is to do with it."""

from paceline.report.page.conditions import conditions
from paceline.report.page.pack import MAGIC, Part, graph_columns, graph_facts, pack, packed

__all__ = ["MAGIC", "Part", "conditions", "graph_columns", "graph_facts", "pack", "packed"]
