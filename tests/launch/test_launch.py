"""Processes that we start: what they are given, how they end, and that nothing outlives us."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.launch import (
    Late,
    LaunchError,
    Process,
    first_of,
    handled,
    run,
    start,
    unwinding,
    watch,
)

LINGERS = """
import os, subprocess, sys, time
alive = open(sys.argv[1], "w")
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
                 start_new_session=True, pass_fds=[alive.fileno()])
print("ready", file=alive, flush=True)
"""
"""Leaves an orphan, cut loose by setsid, that keeps the file open as long as it lives."""


def python(code: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code, *arguments)


def fifo(folder: Path) -> Path:
    os.mkfifo(folder / "alive")
    return folder / "alive"


def test_the_exit_code_is_the_commands() -> None:
    assert run(Process(python("raise SystemExit(7)"))) == 7


def test_an_end_by_a_signal_is_told_as_that_signal() -> None:
    assert run(Process(python("import os; os.kill(os.getpid(), 9)"))) == -signal.SIGKILL
    assert run(Process(python("import os; os.abort()"))) == -signal.SIGABRT


def test_output_and_errors_go_where_they_are_told(tmp_path: Path) -> None:
    code = python("import sys; print('out'); print('err', file=sys.stderr)")
    both, out, err = (tmp_path / name for name in ("both", "out", "err"))
    run(Process(code, log=both))
    run(Process(code, log=out, errors=err))
    assert sorted(both.read_text().split()) == ["err", "out"]
    assert (out.read_text(), err.read_text()) == ("out\n", "err\n")


def test_the_command_runs_with_its_environment_in_its_folder(tmp_path: Path) -> None:
    code = python("import os; print(os.environ.get('HOME'), os.environ['X'], os.getcwd())")
    given = {"X": "1", "PATH": os.environ["PATH"]}
    run(Process(code, given, tmp_path, log=tmp_path / "log"))
    assert (tmp_path / "log").read_text() == f"None 1 {tmp_path}\n"


def test_a_command_that_is_not_there_is_named() -> None:
    with pytest.raises(LaunchError, match="no-such-trainer"):
        start(Process(("no-such-trainer",)))


def test_time_that_is_up_ends_the_command() -> None:
    assert run(Process(("sleep", "600")), timeout_s=0.1) is None


def test_what_a_command_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    alive = fifo(tmp_path)
    with start(Process(python(LINGERS, str(alive)))) as running:
        said = alive.read_text()  # to its end: until nobody holds the file open
        assert (said, running.wait()) == ("ready\n", 0)


def test_after_a_kill_of_the_starter_nothing_below_it_lives_on(tmp_path: Path) -> None:
    alive = fifo(tmp_path)
    starter = (
        "import sys\n"
        "from paceline.launch import Process, run\n"
        "run(Process((sys.executable, '-c', sys.argv[1], sys.argv[2])))\n"
    )
    stays = LINGERS + "time.sleep(600)"
    process = subprocess.Popen(python(starter, stays, str(alive)))
    with alive.open() as file:
        assert file.readline() == "ready\n"
        process.kill()
        assert file.read() == ""
    process.wait()


def test_being_told_to_end_goes_on_to_the_command_which_decides(tmp_path: Path) -> None:
    alive = fifo(tmp_path)
    decides = (
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
        f"open({str(alive)!r}, 'w').write('ready')\n"
        "signal.pause()\n"
    )
    starter = (
        "import sys\n"
        "from paceline.launch import Process, run\n"
        "raise SystemExit(run(Process((sys.executable, '-c', sys.argv[1]))))\n"
    )
    process = subprocess.Popen(python(starter, decides))
    assert alive.read_text() == "ready"
    process.terminate()
    assert process.wait() == 5


def test_several_are_told_as_each_ends_and_those_that_are_late_are_named() -> None:
    with start(Process(("sleep", "600"))) as slow, start(Process(python("exit(3)"))) as quick:
        ends = watch([slow, quick], 60.0, lambda: None)
        assert next(ends) == (1, 3)
        ends.close()
        with pytest.raises(Late) as late:
            list(watch([slow], 0.0, lambda: None))
    assert late.value.left == (0,)


def test_handlers_are_put_back_and_ignored_signals_stay_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with handled((signal.SIGHUP, signal.SIGTERM), lambda *_: None):
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert callable(signal.getsignal(signal.SIGTERM))
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


def test_being_told_to_end_unwinds_the_block_and_nothing_after_it() -> None:
    with pytest.raises(SystemExit) as told, unwinding():
        os.kill(os.getpid(), signal.SIGTERM)
    assert told.value.code == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_the_answer_is_the_first_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "asked.py").write_text(
        "import json, sys\nprint('a line')\nprint(json.dumps({'told': sys.argv[2:]}))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert first_of(2, "asked", 7) == {"told": ["0", "2", "7"]}


def test_a_worker_without_an_answer_is_told_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fails.py").write_text("raise ValueError('no such size')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(LaunchError, match="a worker failed: ValueError: no such size"):
        first_of(1, "fails")
