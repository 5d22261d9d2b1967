"""A server of `paceline serve` under clients that each wait for their answer, in phases.

The clients are coroutines of one process beside the server's own; what they take of the cores is
part of what is measured. Weights stay as written: prepacked, the model of `serve.py` is fastest in
one and the same division under few clients and many, and nothing would be reconfigured.
"""

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from paceline.launch import Process, start

AFTER_S = 1.0
POLL_S = 0.05


@dataclass(frozen=True)
class Phase:
    clients: int
    requests: int


@dataclass(frozen=True)
class Answer:
    phase: int
    begin_s: float
    end_s: float
    status: int

    @property
    def took_s(self) -> float:
        return self.end_s - self.begin_s


@dataclass
class Seen:
    """What clients saw, and when the server had changed its instances."""

    answers: list[Answer] = field(default_factory=list)
    begins_s: list[float] = field(default_factory=list)  # of phases
    changes_s: list[float] = field(default_factory=list)


def under_load(target: str, batch: int, phases: Sequence[Phase]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        serve = [sys.executable, "-m", "paceline", "serve", target]
        command = [*serve, "--as-written", "--batch", str(batch)]
        environment = {**os.environ, "PACELINE_CACHE": folder}
        process = Process((*command, "--port", "0"), environment, log=log)
        with start(process) as running:
            while "serving on" not in log.read_text():
                if running.wait(0.1) is not None:
                    raise SystemExit(log.read_text())
            port = int(log.read_text().partition("127.0.0.1:")[2].split()[0])
            seen = asyncio.run(_asked(port, phases))
    return judged(seen, phases)


async def _asked(port: int, phases: Sequence[Phase]) -> Seen:
    seen, body = Seen(), await _body(port)
    watching = asyncio.ensure_future(_watch(port, seen))
    for number, phase in enumerate(phases):
        seen.begins_s.append(time.monotonic())
        left = iter(range(phase.requests))
        work = (_client(port, body, number, left, seen) for _ in range(phase.clients))
        await asyncio.gather(*work)
    watching.cancel()
    return seen


async def _body(port: int) -> bytes:
    """A request of one sample, as the server says that it takes them."""
    _, told = await _ask(await asyncio.open_connection("127.0.0.1", port), "GET", "/")
    (taken,) = json.loads(told)["inputs"]
    array = np.zeros((1, *taken["shape"]), taken["dtype"])
    from paceline.serve.bodies import Media, write

    return write({"input": array}, Media.NPY)


async def _client(port: int, body: bytes, phase: int, left: Any, seen: Seen) -> None:
    link = await asyncio.open_connection("127.0.0.1", port)
    for _ in left:
        begin = time.monotonic()
        status, _ = await _ask(link, "POST", "/predict", body)
        seen.answers.append(Answer(phase, begin, time.monotonic(), status))
    link[1].close()


async def _watch(port: int, seen: Seen) -> None:
    """Notes when instances were changed."""
    link, known = await asyncio.open_connection("127.0.0.1", port), 0
    while True:
        _, told = await _ask(link, "GET", "/metrics")
        lines = told.decode().splitlines()
        name = "paceline_reconfigurations_total "
        count = int(next(x for x in lines if x.startswith(name)).removeprefix(name))
        seen.changes_s += [time.monotonic()] * (count - known)
        known = count
        await asyncio.sleep(POLL_S)


async def _ask(link: Any, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    """One request over a connection that stays open."""
    reader, writer = link
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    writer.write(f"{head}Content-Type: application/x-npy\r\n\r\n".encode() + body)
    answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(answer.partition("content-length: ")[2].split("\r\n")[0])
    return int(answer.split()[1]), await reader.readexactly(length)


def judged(seen: Seen, phases: Sequence[Phase]) -> dict[str, Any]:
    """p99 from each change of load until a second after its last reconfiguration, over that of
    the same number of clients at other times."""
    windows = [_window(seen, number) for number in range(1, len(phases))]
    busy = [any(w[0] <= a.begin_s <= w[1] for w in windows) for a in seen.answers]
    rows = []
    for number, (begin, end, changes) in enumerate(windows, start=1):
        clients = phases[number].clients
        steady = [
            a.took_s
            for a, during in zip(seen.answers, busy)
            if not during and phases[a.phase].clients == clients
        ]
        during = [a.took_s for a in seen.answers if a.phase == number and begin <= a.begin_s <= end]
        row = {
            "clients": clients,
            "reconfigurations": changes,
            "during_s": end - begin,
            "requests_during": len(during),
            "p99_during_ms": p99(during) * 1e3,
            "p99_steady_ms": p99(steady) * 1e3,
            "median_steady_ms": statistics.median(steady) * 1e3,
        }
        rows.append({**row, "p99_during": row["p99_during_ms"] / row["p99_steady_ms"]})
    return {
        "requests": len(seen.answers),
        "failed": sum(answer.status != 200 for answer in seen.answers),
        "p99_during": max(row["p99_during"] for row in rows),
        "reconfigurations": len(seen.changes_s),
        "changes": rows,
    }


def _window(seen: Seen, phase: int) -> tuple[float, float, int]:
    """From where the load changed to a second after its last reconfiguration."""
    begin = seen.begins_s[phase]
    after = [*seen.begins_s, float("inf")][phase + 1]
    changes = [moment for moment in seen.changes_s if begin <= moment < after]
    return begin, max([begin, *changes]) + AFTER_S, len(changes)


def p99(values: Sequence[float]) -> float:
    return sorted(values)[min(len(values) - 1, round(0.99 * (len(values) - 1)))]
