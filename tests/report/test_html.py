"""Figures for notebooks: self-contained, with every name as text."""

from collections.abc import Iterator

import pytest

from paceline.compare import diff, side_of_graph
from paceline.graph import GraphBuilder
from paceline.replay import Timeline, replay
from paceline.report import html
from paceline.strategies import Plan, parse

NASTY = "<script>alert(1)</script>\x00\"'"


def timeline(ns: int = 5_000) -> Timeline:
    b = GraphBuilder()
    b.op(NASTY, b.lane(0, "main"), ns, layer=NASTY)
    return replay(b.build())


@pytest.fixture
def page() -> Iterator[None]:
    html.PAGES.append(lambda value: "<b>a page</b>" if isinstance(value, Timeline) else None)
    yield
    html.PAGES.pop()


def test_a_timeline_is_a_figure_without_scripts_and_nothing_from_elsewhere() -> None:
    shown = timeline()._repr_html_()
    assert "&lt;script&gt;" in shown
    assert "<script" not in shown
    assert "http" not in shown
    assert "rank 0" in shown


def test_a_difference_and_a_plan_are_shown() -> None:
    a, b = (side_of_graph(timeline(ns).graph, f"<{ns}>") for ns in (5_000, 9_000))
    assert "&lt;9000&gt; differs by" in diff(a, b)._repr_html_()
    plan = Plan((parse("scale(select='all', factor=0.5)"),))
    assert "scale(select=&#x27;all&#x27;, factor=0.5)" in plan._repr_html_()


@pytest.mark.usefixtures("page")
def test_a_page_is_framed_where_there_is_one_for_the_value() -> None:
    shown = timeline()._repr_html_()
    assert shown.startswith('<iframe srcdoc="&lt;b&gt;a page&lt;/b&gt;" sandbox=')
    assert "iframe" not in Plan(())._repr_html_()
