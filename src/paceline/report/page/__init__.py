"""What a page that shows a run carries: its graph, packed."""

from paceline.report.page.pack import MAGIC, graph_columns, graph_facts, pack, packed

__all__ = ["MAGIC", "graph_columns", "graph_facts", "pack", "packed"]
