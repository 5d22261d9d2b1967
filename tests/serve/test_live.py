"""A real server, its instances forked and pinned: it answers, refuses, and survives."""

import asyncio
import io
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paceline.cli import main
from paceline.launch import Process, start
from paceline.serve import (
    Fingerprint,
    InstanceShare,
    Point,
    ServeError,
    ServingPlan,
    ServingProfile,
    best_plan,
    topology_here,
)
from paceline.serve.load import Load

pytestmark = [pytest.mark.live, pytest.mark.needs("linux", "torch", "serve")]
MODEL = f"{Path(__file__).parent / 'served_model.py'}:build"
DIES, RAISES, HANGS = 666.0, 777.0, 888.0  # as served_model.py has it, which needs torch


@dataclass
class Client:
    port: int

    def ask(self, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
        with_dashes = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("POST" if body else "GET", path, body or None, with_dashes)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def rows(self, *firsts: float) -> tuple[int, dict[str, Any]]:
        body = json.dumps({"inputs": [[first, 1, 2, 3] for first in firsts]}).encode()
        status, answer = self.ask("/predict", body)
        return status, json.loads(answer)

    def about(self) -> dict[str, Any]:
        return json.loads(self.ask("/")[1])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """`paceline serve` on one core, on a free port."""
    folder = tmp_path_factory.mktemp("serve")
    command = [sys.executable, "-m", "paceline", "serve", MODEL, "--cores", "1", "--batch", "4"]
    command += ["--port", "0", "--limit-s", "2", "--window-ms", "1"]
    environment = {**os.environ, "PACELINE_CACHE": str(folder), "PYTHONWARNINGS": "default"}
    process = Process(tuple(command), environment, log=folder / "log")
    with start(process) as running:
        yield Client(_port(folder / "log", lambda: running.wait(0.05)))
        running.send(signal.SIGTERM)
        assert running.wait(30) is not None, "it did not end when it was asked to"
    assert list((folder / "serve").glob("*.json")), "the profile was not kept"


def _port(log: Path, ended: Callable[[], int | None]) -> int:
    while "serving on" not in (said := log.read_text()):
        assert ended() is None, said
    assert "this machine alone" in said
    return int(said.partition("http://127.0.0.1:")[2].split()[0])


def test_json_npy_and_a_stream_give_the_same_numbers(server: Client) -> None:
    status, found = server.rows(1.0, 5.0)
    assert status == 200
    assert found["outputs"] == {"doubled": [[2, 2, 4, 6], [10, 2, 4, 6]], "sum": [7, 11]}
    file = io.BytesIO()
    np.save(file, np.array([[5.0, 1, 2, 3]]))
    status, body = server.ask(
        "/predict", file.getvalue(), content_type="application/x-npy", accept="application/x-npz"
    )
    assert status == 200
    assert np.load(io.BytesIO(body))["doubled"].tolist() == [[10, 2, 4, 6]]
    asked = json.dumps({"inputs": [[n, 0, 0, 0] for n in range(4)]}).encode()
    status, body = server.ask("/predict", asked, accept="application/x-ndjson")
    parts = [json.loads(line) for line in body.splitlines()]
    assert status == 200
    assert sorted(n for part in parts for n in part["outputs"]["sum"]) == [0, 1, 2, 3]


def test_what_is_wrong_with_a_request_is_said(server: Client) -> None:
    for body, status, said in (
        (b'{"inputs": [[1, 2, 3]]}', 400, "has shape [1, 3]; allowed: 'input' of float32"),
        (b"{", 400, "is no JSON"),
        (json.dumps({"inputs": [[1] * 4] * 5}).encode(), 413, "5 samples; at most 4"),
        (b" " * 100_000, 413, "100,000 bytes; at most"),
    ):
        found, answer = server.ask("/predict", body)
        assert (found, said in json.loads(answer)["error"]) == (status, True), answer
    assert server.ask("/predict", b"x", content_type="text/html")[0] == 400
    assert server.ask("/predict")[0] == 405
    assert server.ask("/nothing")[0] == 404


def test_a_model_that_raises_refuses_the_request_and_lives_on(server: Client) -> None:
    before = server.about()["instances"]
    status, answer = server.rows(1.0, RAISES)
    assert status == 400
    assert "the model raised IndexError: no such row" in answer["error"]
    assert server.about()["instances"] == before


def test_an_instance_that_dies_or_hangs_is_replaced_and_the_request_refused(server: Client) -> None:
    for poison, said in ((DIES, "died"), (HANGS, "no answer in 2 s")):
        before = server.about()["instances"][0]["pid"]
        status, answer = server.rows(poison)
        assert status == 500
        assert said in answer["error"]
        assert server.rows(3.0)[0] == 200
        assert server.about()["instances"][0]["pid"] != before


def test_an_instance_killed_while_idle_is_replaced(server: Client) -> None:
    before = server.about()["instances"][0]["pid"]
    os.kill(before, signal.SIGKILL)
    assert server.rows(3.0)[0] == 200
    assert server.about()["instances"][0]["pid"] != before


def test_instances_are_pinned_and_counted(server: Client) -> None:
    (instance,) = server.about()["instances"]
    assert os.sched_getaffinity(instance["pid"]) == set(instance["processors"])
    assert server.ask("/health") == (200, b"alive\n")
    assert server.ask("/ready") == (200, b"ready\n")
    lines = server.ask("/metrics")[1].decode().splitlines()
    assert "paceline_instances 1" in lines
    assert any(line.startswith('paceline_requests_total{code="200"}') for line in lines)


def test_a_port_that_is_taken_is_named(server: Client) -> None:
    from paceline.serve.serving import Address, _listening

    with pytest.raises(ServeError, match=f"cannot listen on 127.0.0.1 port {server.port}"):
        _listening(Address(port=server.port))
    with socket.socket() as taken, _listening(Address(port=0)) as free:
        assert taken is not free


def test_a_profile_of_two_cores_tries_the_plan_and_the_plain_choices() -> None:
    found = asyncio.run(_profiled())
    if found is None:
        pytest.skip("this process may use one core alone")
    for batch in (1, 2, 4):
        tried = [one for one in found.tried if one.batch == batch]
        assert {(InstanceShare(2, batch),)} < {one.shares for one in tried}
        plan = best_plan(found, 2, batch)
        assert plan.latency_ns == min(one.median_ns for one in tried) > 0
        assert all(one.runs >= 3 for one in tried)


async def _profiled() -> ServingProfile | None:
    from paceline.serve.profiling import Reach, profiled
    from paceline.serve.template import template

    everything = topology_here()
    if len(everything.processors) < 2:
        return None
    said: list[str] = []
    async with template(MODEL) as model:
        two = topology_here(everything.processors[:2])
        wanted = Fingerprint("m", "t", "c")
        found = await profiled(model, wanted, two, Reach(2, 4, rounds=1), said.append)
    assert said[-1] == "plans and plain choices in turn"
    return found


def two_cores() -> ServingProfile:
    """Two threads are best for a single sample, two instances for four."""
    curves = ((1, 10.0, False), (1, 10.0, True), (2, 8.0, False))
    points = [Point(t, b, ns * b, 1, 1, 1, crowded) for t, ns, crowded in curves for b in (1, 2, 4)]
    return ServingProfile(Fingerprint("m", "t", "c"), 2, 4, tuple(points), "today")


@asynccontextmanager
async def dispatching() -> AsyncIterator[Any]:
    from paceline.serve.dispatcher import Dispatcher, Planned, Rules
    from paceline.serve.template import template

    profile = two_cores()
    plans = {size: best_plan(profile, 2, size) for size in (1, 2, 4)}
    rules = Rules(window_ns=1_000_000, pause_s=0.0)
    async with template(MODEL) as model:
        dispatcher = Dispatcher(model, Planned(profile, topology_here(), plans), rules)
        await dispatcher.start(plans[4])
        yield dispatcher
        await dispatcher.stop()


async def answered(dispatcher: Any, first: float, samples: int = 1) -> list[list[float]]:
    from paceline.serve.requests import whole

    inputs = {"input": np.full((samples, 4), first, np.float32)}
    request = dispatcher.take(inputs, samples)
    try:
        return whole([part async for part in request.parts()])["doubled"].tolist()
    finally:
        dispatcher.done(request)


async def _asking(dispatcher: Any, number: int, until: tuple[int, ...]) -> None:
    """A client, until the instances run so many threads each."""
    while dispatcher.plan.threads != until:
        assert await answered(dispatcher, number) == [[2.0 * number] * 4]


async def _loads_that_change() -> None:
    async with dispatching() as dispatcher:
        assert dispatcher.plan.threads == (1, 1)
        for clients, threads in ((1, (2,)), (4, (1, 1)), (1, (2,))):
            asking = (_asking(dispatcher, n, threads) for n in range(clients))
            await asyncio.wait_for(asyncio.gather(*asking), 60)
        assert dispatcher.metrics.reconfigurations == 3
        assert dispatcher.metrics.deaths == 0


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two instances need two cores")
def test_instances_change_with_the_load_and_every_request_is_answered() -> None:
    asyncio.run(_loads_that_change())


async def _a_load_that_falls() -> None:
    async with dispatching() as dispatcher:
        waiting = [asyncio.ensure_future(answered(dispatcher, n)) for n in range(12)]
        await asyncio.sleep(0)
        dispatcher.load = Load(2.0, (2,) * 10)
        found = await asyncio.wait_for(asyncio.gather(*waiting), 60)
        assert found == [[[2.0 * n] * 4] for n in range(12)]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two instances need two cores")
def test_no_request_is_lost_where_a_falling_load_leaves_smaller_shares() -> None:
    asyncio.run(_a_load_that_falls())


async def _deaths_among_others() -> None:
    async with dispatching() as dispatcher:
        asked = [answered(dispatcher, n) for n in (1.0, DIES, 3.0, 4.0)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(one).__name__ for one in found] == ["list", "Failed", "list", "list"]
        assert dispatcher.metrics.deaths == 2


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two instances need two cores")
def test_a_request_that_ends_instances_ends_no_other_request() -> None:
    asyncio.run(_deaths_among_others())


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("nothing.py:build", "there is no file nothing.py"),
        (MODEL.replace(":build", ":other"), "has no function 'other'"),
        (MODEL.replace(":build", ":wrong"), "did not return"),
    ],
)
def test_a_model_that_cannot_be_loaded_is_named(target: str, said: str) -> None:
    from paceline.serve.template import template

    async def opened() -> None:
        async with template(target):
            pass

    with pytest.raises(ServeError, match=said):
        asyncio.run(opened())


LINEAR = "import torch\ndef build():\n    return torch.nn.Linear(4, 2), torch.zeros(1, {})\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import nothing_of_that_name", "cannot be imported: ModuleNotFoundError"),
        ("def build(:", "cannot be imported: SyntaxError"),
        ("def build():\n    raise ValueError('no weights')", "raised ValueError: no weights"),
        (
            "import torch\ndef build():\n    return torch.nn.Identity(), [1]",
            "no tensor with a batch",
        ),
        (LINEAR.format(3), "fails on its own example: RuntimeError"),
    ],
)
def test_a_model_file_that_cannot_be_served_says_why(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from paceline.serve.torch_model import built, signature

    file = tmp_path / "model_to_serve.py"
    file.write_text(text)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, file.stem, sys)  # gone behind the test
    with pytest.raises(ServeError, match=said):
        signature(built(f"{file}:build"), str(file))


def test_a_model_that_answers_nothing_by_sample_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from paceline.serve.torch_model import built, signature

    file = tmp_path / "summing_model.py"
    file.write_text("import torch\ndef build():\n    return torch.sum, torch.zeros(1, 4)\n")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, file.stem, sys)
    with pytest.raises(ServeError, match="no tensor whose first dimension is the batch"):
        signature(built(str(file)), str(file))


def test_the_command_says_why_a_model_cannot_be_served(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "model.py"
    file.write_text("import nothing_of_that_name\n")
    assert main(["serve", f"{file}:build", "--plan-only"]) == 1
    assert "cannot be imported: ModuleNotFoundError" in capsys.readouterr().err
    assert main(["serve", f"{file}:build", "--measure"]) == 1
    assert "--measure goes with --plan-only" in capsys.readouterr().err
    assert main(["serve", MODEL, "--cores", "4096", "--plan-only"]) == 1
    assert "4096 cores asked; this process may use" in capsys.readouterr().err


def test_a_plan_is_told_in_words() -> None:
    plan = ServingPlan(9, (InstanceShare(4, 5), InstanceShare(1, 2), InstanceShare(1, 2)), 1.0)
    assert str(plan) == "4 threads, 5 + 2 x 1 thread, 2 each"
