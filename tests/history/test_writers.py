"""Several real processes write to one history at once; some are killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from paceline.history import History

WRITE = """
import sys
sys.path.insert(0, sys.argv[2])
from conftest import drawn
from pathlib import Path
from paceline.history import History
history, told = History(Path(sys.argv[1]), patience_s=60), 0
print("ready", flush=True)
while told < int(sys.argv[3]):
    history.add(drawn(run=f"{sys.argv[4]} {told}"), drawn(run=f"{sys.argv[4]} {told} too"))
    told += 1
    print(told, flush=True)
"""


def writer(path: Path, count: int, name: str) -> "subprocess.Popen[str]":
    here = str(Path(__file__).parent)
    return subprocess.Popen(
        [sys.executable, "-c", WRITE, str(path), here, str(count), name],
        stdout=subprocess.PIPE,
        text=True,
    )


def test_writers_at_once_lose_nothing_even_where_the_file_is_not_there_yet(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    writers = [writer(path, 15, f"w{i}") for i in range(4)]
    assert [each.wait(120) for each in writers] == [0] * 4
    for each in writers:
        assert each.stdout is not None
        each.stdout.close()
    wanted = {f"w{i} {n}{too}" for i in range(4) for n in range(15) for too in ("", " too")}
    assert {entry.run for entry in History(path).entries()} == wanted


def test_a_killed_writer_leaves_whole_entries_and_lets_others_write(tmp_path: Path) -> None:
    path, told = tmp_path / "history.sqlite", list[int]()
    victims = [writer(path, 10_000, f"v{i}") for i in range(2)]
    steady = writer(path, 20, "steady")
    for victim in victims:
        assert victim.stdout is not None
        lines = [victim.stdout.readline() for _ in range(8)]
        os.kill(victim.pid, signal.SIGKILL)
        lines += victim.stdout.readlines()
        told.append(max(int(line) for line in lines[1:] if line.endswith("\n")))
        victim.stdout.close()
        assert victim.wait(60) == -signal.SIGKILL
    assert steady.wait(120) == 0
    assert steady.stdout is not None
    steady.stdout.close()
    runs = [entry.run for entry in History(path).entries()]
    assert sum(run.startswith("steady") for run in runs) == 40
    for at, count in enumerate(told):
        kept = [run for run in runs if run.startswith(f"v{at} ")]
        assert len(kept) in (2 * count, 2 * count + 2)  # both entries of each call, or none
