"""What notebooks show: the page in a frame, or a figure; every name as text."""

import re
from html import unescape

import pytest

from paceline.compare import diff, side_of_graph
from paceline.errors import FileError
from paceline.graph import GraphBuilder
from paceline.graph.synthetic.training import training
from paceline.graph.synthetic.training_job import TrainingJob
from paceline.predict import predict
from paceline.replay import Timeline, replay
from paceline.report.html import figure_of
from paceline.report.page import template
from paceline.strategies import Plan, parse

FRAME = r'<iframe title="[^"]*" srcdoc="([^"]*)" sandbox="([^"]*)" style="[^"]*">.*'
NASTY = "<script>alert(1)</script>\x00\"'"


def built() -> bool:
    try:
        template()
    except FileError:
        return False
    return True


def timeline(ns: int = 5_000) -> Timeline:
    b = GraphBuilder()
    b.op(NASTY, b.lane(0, "main"), ns, layer=NASTY)
    return replay(b.build())


def test_the_figure_of_a_timeline_has_no_scripts_and_nothing_from_elsewhere() -> None:
    shown = figure_of(timeline())
    assert "&lt;script&gt;" in shown
    assert "<script" not in shown
    assert "http" not in shown
    assert "rank 0" in shown


def test_a_difference_and_a_plan_have_figures() -> None:
    a, b = (side_of_graph(timeline(ns).graph, f"<{ns}>") for ns in (5_000, 9_000))
    assert "&lt;9000&gt; differs by" in figure_of(diff(a, b))
    plan = Plan((parse("scale(select='all', factor=0.5)"),))
    assert "scale(select=&#x27;all&#x27;, factor=0.5)" in figure_of(plan)


@pytest.mark.skipif(not built(), reason="the page is not built: make page")
def test_a_timeline_a_prediction_a_difference_and_a_plan_are_pages_in_a_frame() -> None:
    a, b = (side_of_graph(timeline(ns).graph, f"<{ns}>") for ns in (5_000, 9_000))
    made = predict(training(TrainingJob(workers=2, layers=3, steps=3)))
    for value, title in ((timeline(), "timeline"), (diff(a, b), "<5000> and <9000>"),
                         (made, "prediction"), (Plan(()), "plan")):  # fmt: skip
        shown = value._repr_html_()
        framed = re.fullmatch(FRAME, shown)
        assert framed
        page = unescape(framed[1])
        assert unescape(page.split("<title>")[1].split(" · ")[0]) == title
        assert "default-src 'none'" in page
        assert framed[2] == "allow-scripts allow-downloads"


def test_where_there_is_no_page_a_figure_is_shown() -> None:
    for value in (timeline(), Plan(())):
        assert ("iframe" in value._repr_html_()) == built()
