"""A real torchrun whose recorder is killed: its workers, cut loose by setsid, end too."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.live

STAYS = """
import signal, sys
file = open(sys.argv[1], "w")
print("ready", file=file, flush=True)
signal.pause()
"""


def test_after_a_kill_of_record_no_worker_under_torchrun_lives_on(tmp_path: Path) -> None:
    alive, script = tmp_path / "alive", tmp_path / "stays.py"
    os.mkfifo(alive)
    script.write_text(STAYS)
    record = [sys.executable, "-m", "paceline", "record", "-o", str(tmp_path / "run"), "--"]
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    process = subprocess.Popen([*record, *run, str(script), str(alive)])
    with alive.open() as file:
        assert [file.readline(), file.readline()] == ["ready\n", "ready\n"]
        process.kill()
        assert file.read() == ""  # to its end: until neither worker holds it open
    process.wait()
