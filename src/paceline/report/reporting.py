"""`report`: a run's page, as `paceline report` writes it."""

from pathlib import Path
from typing import TYPE_CHECKING

from paceline.cluster import Cluster
from paceline.graph import Graph

if TYPE_CHECKING:
    from paceline.predict import Question


def report(
    run: Graph | str | Path,
    page: str | Path,
    cluster: Cluster | None = None,
    question: "Question | None" = None,
) -> Path:
    """Write one HTML file that shows a graph or the run in a folder, and answers "what if?": on the
    cluster, where one is given, whose links can then be slid. It carries the strategies that are
    carried by default."""
    from paceline.predict import Question
    from paceline.report.page import PageRequest, carried_by_default, gather, template, write_page
    from paceline.trace.runs import open_run

    template()  # says what is missing before anything is computed
    folder = None if isinstance(run, Graph) else Path(run)
    graph = run if isinstance(run, Graph) else open_run(run)
    asked = PageRequest(
        name=folder.resolve().name if folder else str(graph.meta.get("run") or Path(page).stem),
        graph=graph,
        cluster=cluster,
        question=question or Question(),
        strategies=carried_by_default(graph, cluster),
        folder=folder,
    )
    return write_page(gather(asked), page)
