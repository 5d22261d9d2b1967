"""The server of `paceline view`, asked over HTTP."""

import json
from collections.abc import Iterator
from functools import partial
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from paceline.cluster import parse
from paceline.graph import save_graph
from paceline.graph.files import HEADER
from paceline.graph.synthetic.training import training
from paceline.graph.synthetic.training_job import TrainingJob
from paceline.report.page import MAGIC, PageRequest
from paceline.viewer import Server, Viewed, Viewer, ViewError, serving

SHELL = (
    "<meta content=\"default-src 'none'; script-src x\"><title>PACELINE_TITLE</title>PACELINE_DATA"
)
CLUSTER = parse("hosts: 2\nlink: {rate: 1Gbps, latency: 50us}\n")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    job = training(TrainingJob(workers=2, layers=3, steps=3))
    runs = tuple(Viewed(PageRequest(name, job, cluster=CLUSTER)) for name in ("first", "second"))
    with serving(Viewer(runs, SHELL)) as made:
        yield made


def asked(
    server: Server, method: str, path: str, body: Any = None, **headers: str
) -> tuple[HTTPResponse, bytes]:
    there = HTTPConnection("127.0.0.1", server.guard.port, timeout=60)
    text = None if body is None else json.dumps(body)
    there.request(method, f"/{server.guard.token}/{path}", text, headers)
    answer = there.getresponse()
    found = answer.read()
    there.close()
    return answer, found


def told(server: Server, method: str, path: str, body: Any = None) -> Any:
    return json.loads(asked(server, method, path, body)[1])


def test_each_run_has_its_page(server: Server) -> None:
    for run, name in enumerate(("first", "second")):
        answer, page = asked(server, "GET", f"{run}/")
        assert answer.status == 200
        assert f"<title>{name}</title>".encode() in page
        assert b"connect-src 'self'" in page
        assert answer.headers["Cache-Control"] == "no-store"


def test_the_token_alone_leads_to_the_first_run(server: Server) -> None:
    answer, _ = asked(server, "GET", "")
    assert (answer.status, answer.headers["Location"]) == (302, "0/")


def test_a_page_gets_a_scenario_for_any_strategy_and_cluster(server: Server) -> None:
    wanted = {"strategies": "bf16+workers(count=4)", "cluster": "hosts: 4\nlink: {rate: 10Gbps}\n"}
    answer, found = asked(server, "POST", "0/predict", wanted)
    assert answer.status == 200
    assert found.startswith(MAGIC)


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("0/predict", {"strategies": "bf61"}, "bf16"),
        ("0/predict", {"strategies": 7}, "a text"),
        ("0/predict", {"cluster": "hosts: many"}, "'many'"),
        ("0/predict", [], "JSON object"),
        ("7/predict", {}, "no run 7"),
        ("0/search", {"allow": "anything"}, "exact, lossy, relaxed"),
        ("0/search", {"budget_s": -1}, "-1"),
        ("search/99/stop", {}, "no search 99"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(
    server: Server, path: str, body: Any, words: str
) -> None:
    answer, found = asked(server, "POST", path, body)
    assert answer.status == 400
    assert words in json.loads(found)["error"]


def test_a_search_tells_how_far_it_is_and_what_it_found(server: Server) -> None:
    number = told(server, "POST", "0/search", {"budget_s": 20})["search"]
    second, _ = asked(server, "POST", "0/search", {})
    state = told(server, "GET", f"search/{number}")
    while state["ended"] is None:
        state = told(server, "GET", f"search/{number}")
    assert second.status == 400
    assert state["ended"] == "done"
    assert state["best"]["batch_ns"] <= state["unchanged"]["batch_ns"]
    assert state["tried"] > 1


def test_a_search_that_is_stopped_keeps_what_it_found(server: Server) -> None:
    number = told(server, "POST", "1/search", {"budget_s": 500, "allow": "relaxed"})["search"]
    state = told(server, "POST", f"search/{number}/stop", {})
    while state["ended"] is None:
        state = told(server, "GET", f"search/{number}")
    assert state["ended"] in ("interrupted", "done")
    assert state["best"]["batch_ns"] > 0


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[tuple[Server, Path]]:
    """A server of a run that lies in a folder."""
    folder = tmp_path / "run"
    save_graph(training(TrainingJob(workers=2, layers=3, steps=3)), folder)
    run = Viewed.of(folder, partial(PageRequest, "run", cluster=CLUSTER))
    with serving(Viewer((run,), SHELL)) as made:
        yield made, folder


def test_a_run_that_changed_is_opened_anew(recorded: tuple[Server, Path]) -> None:
    server, folder = recorded
    before = asked(server, "GET", "0/")[1]
    assert asked(server, "GET", "0/")[1] == before
    save_graph(training(TrainingJob(workers=2, layers=5, steps=3)), folder)
    answer, words = asked(server, "POST", "0/predict", {})
    assert answer.status == 400
    assert "reload the page" in json.loads(words)["error"]
    assert asked(server, "GET", "0/")[1] != before
    assert asked(server, "POST", "0/predict", {})[0].status == 200


def test_a_run_that_is_half_written_is_named_until_it_is_whole(
    recorded: tuple[Server, Path],
) -> None:
    server, folder = recorded
    assert asked(server, "GET", "0/")[0].status == 200
    header = folder / HEADER
    whole = header.read_bytes()
    header.write_bytes(whole[: len(whole) // 2])
    answer, words = asked(server, "GET", "0/")
    assert answer.status == 400
    assert "Reload once it is written" in json.loads(words)["error"]
    header.write_bytes(whole)
    assert asked(server, "GET", "0/")[0].status == 200


@pytest.mark.parametrize(
    "path", ["0/../../etc/passwd", "../pyproject.toml", "0/graph.json", "%2e%2e/%2e%2e/etc/passwd"]
)
def test_files_are_never_served(server: Server, path: str) -> None:
    answer, body = asked(server, "GET", path)
    assert answer.status in (403, 404)
    assert set(json.loads(body)) == {"error"}


def test_strangers_are_refused(server: Server) -> None:
    answer, _ = asked(server, "GET", "0/", Host="evil.example")
    assert answer.status == 403
    answer, _ = asked(server, "POST", "0/predict", {}, Origin="http://evil.example")
    assert answer.status == 403


def test_an_address_of_nothing_and_a_question_too_long_are_refused(server: Server) -> None:
    assert asked(server, "GET", "0/secrets")[0].status == 404
    announced = {"Content-Length": str(1 << 21)}
    assert asked(server, "POST", "0/predict", {}, **announced)[0].status == 413


def test_a_port_in_use_is_named(server: Server) -> None:
    taken = serving(Viewer((), SHELL), server.guard.port)
    with pytest.raises(ViewError, match=str(server.guard.port)), taken:
        pass
