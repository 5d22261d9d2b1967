"""Looking at a run needs nothing that Linux alone has: people record on a cluster and look on a Mac
or on Windows, with the universal wheel."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from paceline.cli import main
from paceline.graph import save_graph
from paceline.graph.synthetic import Ring, ring

HIDDEN = """
import os, platform, signal, subprocess, sys, tempfile
import msgspec, numpy, pyarrow.parquet, rich.console, rich.table, yaml
from importlib.util import find_spec
if find_spec("wasmtime"):
    import wasmtime
for name in "fcntl resource pwd grp termios pty tty posix_spawn".split():
    sys.modules[name] = None
for name in ("sched_getaffinity sched_setaffinity geteuid getuid getpgid setsid killpg fork "
             "sysconf getloadavg uname mkfifo statvfs wait4 O_DIRECTORY").split():
    vars(os).pop(name, None)
for name in "SIGKILL SIGHUP SIGUSR1 SIGUSR2 SIGCHLD SIGALRM pthread_sigmask setitimer".split():
    vars(signal).pop(name, None)
sys.modules["paceline._core"] = None
from paceline.cli import main
sys.exit(main(sys.argv[1:]))
"""
"""Run before Paceline is imported, as though the system had none of them, and no native core was
built; what Paceline stands on asks the real system."""


TEMPLATE = Path(__file__).parents[2] / "src" / "paceline" / "report" / "page" / "template.html"
built = pytest.mark.skipif(not TEMPLATE.exists(), reason="the page is not built: make page")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("jobs") / "job"
    save_graph(ring(Ring(ranks=2, layers=3, tensors=2)), folder)
    return folder


def run(*arguments: str) -> str:
    command = [sys.executable, "-c", HIDDEN, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("command", ["show", "predict"])
def test_a_run_is_looked_at(command: str, job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([command, str(job), "--json"])
    assert json.loads(run(command, str(job), "--json")) == json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_a_recording_of_many_ranks_is_imported(job: Path, tmp_path: Path) -> None:
    run("convert", str(job), str(tmp_path / "chakra"), "--to", "chakra")
    run("import", str(tmp_path / "chakra"), "-o", str(tmp_path / "back"))
    assert run("show", str(tmp_path / "back"))


def test_a_profilers_trace_is_imported_and_looked_at(tmp_path: Path) -> None:
    events = [
        {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": at, "dur": 50}
        for at, name in ((0, "aten::mm"), (60, "aten::add"))
    ]
    trace = tmp_path / "rank0.json"
    trace.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    run("import", str(trace), "-o", str(tmp_path / "run"))
    assert "aten::mm" in run("show", str(tmp_path / "run"), "--more", "tree")


def test_two_runs_are_compared(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["diff", str(job), str(job), "--json"])
    found = json.loads(run("diff", str(job), str(job), "--json"))
    assert found == json.loads(capsys.readouterr().out)


@built
def test_a_page_is_written_as_on_any_other_system(job: Path, tmp_path: Path) -> None:
    there, here = tmp_path / "there.html", tmp_path / "here.html"
    run("report", str(job), str(job), "-o", str(there))
    main(["report", str(job), str(job), "-o", str(here)])
    assert there.read_bytes() == here.read_bytes()


@built
def test_a_page_is_served(job: Path) -> None:
    command = [sys.executable, "-c", HIDDEN, "view", str(job)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as serving:
        try:
            assert serving.stdout is not None
            address = serving.stdout.readline().split()[0]
            with urllib.request.urlopen(address) as answer:
                assert b"<title>job" in answer.read()
        finally:
            serving.kill()


@pytest.mark.needs("webassembly", "wasmtime")
def test_the_engine_is_named() -> None:
    assert "WebAssembly (wasmtime" in run("--version")
    assert "WebAssembly (wasmtime" in json.loads(run("doctor", "--json"))["engine"]
