"""The MCP server, asked by the protocol's own client in this process."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from paceline.graph import GraphBuilder, Phase, save_graph

pytestmark = pytest.mark.needs("mcp")


@pytest.fixture
def runs(tmp_path: Path) -> list[str]:
    for name, us in (("before", 100), ("after", 300)):
        b = GraphBuilder()
        lane = b.lane(0, "main thread")
        for step in range(4):
            ns = 1_000 * us + 100 * step
            b.op("aten::mm", lane, ns, phase=Phase.FORWARD, layer="one", step=step)
        save_graph(b.build(), tmp_path / name)
    return [str(tmp_path / "before"), str(tmp_path / "after")]


def asked(tool: str, *, allow_run: bool = False, **arguments: Any) -> Any:
    from mcp.client import Client

    from paceline.assist.server import server

    async def ask() -> Any:
        async with Client(server(allow_run=allow_run)) as client:
            return await client.call_tool(tool, arguments)

    return asyncio.run(ask())


def tools(*, allow_run: bool) -> dict[str, Any]:
    from mcp.client import Client

    from paceline.assist.server import server

    async def ask() -> dict[str, Any]:
        async with Client(server(allow_run=allow_run)) as client:
            return {tool.name: tool for tool in (await client.list_tools()).tools}

    return asyncio.run(ask())


def test_tools_only_read_unless_running_was_allowed() -> None:
    found = tools(allow_run=False)
    assert {"show", "predict", "diff"} <= set(found)
    assert "record" not in found
    assert all(tool.annotations.read_only_hint for tool in found.values())
    assert not tools(allow_run=True)["record"].annotations.read_only_hint


def test_answers_are_typed() -> None:
    schema = tools(allow_run=False)["diff"].output_schema
    assert {"verdict", "before_ms", "causes"} <= set(schema["properties"])


def test_show_predict_and_diff_answer(runs: list[str]) -> None:
    shown = asked("show", run=runs[0]).structured_content
    assert shown["step_ms"] == pytest.approx(0.1, rel=0.01)
    half = ["scale(select='phase=forward', factor=0.5)"]
    predicted = asked("predict", run=runs[0], changes=half).structured_content
    assert predicted["step_ms"] == pytest.approx(0.05, rel=0.01)
    found = asked("diff", before=runs[0], after=runs[1]).structured_content
    assert found["verdict"] == "slower"
    assert found["causes"][0]["time_ms"] == pytest.approx(0.2, rel=0.01)


def test_a_wrong_question_is_answered_in_our_words() -> None:
    answer = asked("show", run="/nowhere")
    assert answer.is_error
    assert "/nowhere does not exist" in answer.content[0].text


def test_recording_is_refused_where_it_was_not_allowed(tmp_path: Path) -> None:
    given = {"command": ["true"], "folder": str(tmp_path / "a")}
    answer = asked("record", **given)
    assert answer.is_error
    assert not (tmp_path / "a").exists()


def test_a_command_that_fails_says_its_last_words(tmp_path: Path) -> None:
    given = {"command": ["no-such-program"], "folder": str(tmp_path / "a")}
    answer = asked("record", allow_run=True, **given)
    assert answer.is_error
    assert "no-such-program" in answer.content[0].text
