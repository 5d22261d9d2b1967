"""The wheel: installed where there is no compiler and no Node, it brings the engine and works."""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TRAINING = "--model small --parallel ddp --steps 34 --bucket-mb 0.3".split()

pytestmark = [pytest.mark.slow, pytest.mark.live, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `make wheel` makes it, once however many processes test."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    made = shared / "wheel"
    with (shared / "wheel.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            command = [str(ROOT / ".ci" / "wheel"), sys.executable]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            made.write_text(done.stdout.strip().splitlines()[-1])
    return ROOT / made.read_text()


@pytest.fixture(scope="module")
def new(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a new environment with the wheel and torch in it."""
    place = tmp_path_factory.mktemp("new") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    pip = [str(place / "bin" / "python"), "-m", "pip", "install", "-q",
           "--disable-pip-version-check", "-c", str(ROOT / "constraints.txt")]  # fmt: skip
    subprocess.run([*pip, "--only-binary", ":all:", f"{wheel}[torch]"], check=True)
    return place / "bin"


def ran(programs: Path, *words: str, cwd: Path) -> str:
    """With nothing on PATH but the environment's own programs."""
    kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
    given = {**kept, "PATH": str(programs), "HOME": str(cwd)}
    command = [str(programs / words[0]), *words[1:]]
    done = subprocess.run(command, env=given, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.needs("torch", "g++", "linux")
def test_the_wheel_records_shows_predicts_and_tunes_without_compiler_or_node(
    new: Path, tmp_path: Path
) -> None:
    assert not {"g++", "gcc", "cc", "node", "cmake"} & {path.name for path in new.iterdir()}
    assert "engine: native" in ran(new, "paceline", "--version", cwd=tmp_path)
    training = ["torchrun", "--nproc-per-node", "2", str(ROOT / "examples" / "train.py"), *TRAINING]
    ran(new, "paceline", "record", "-o", "run", "--steps", "4", "--plain", "2", "--", *training,
        cwd=tmp_path)  # fmt: skip
    shown = ran(new, "paceline", "show", "run", cwd=tmp_path)
    assert "Critical path" in shown
    found: dict[str, Any] = json.loads(
        ran(
            new, "paceline", "predict", "run", "--scale", "phase=update:0.5", "--json", cwd=tmp_path
        )
    )
    assert found["step_ns"] > 0
    kept = json.loads(ran(new, "paceline", "history", "--json", cwd=tmp_path))
    assert [entry["kind"] for entry in kept["entries"]] == ["recording", "prediction"]
    assert kept["history"].startswith(str(tmp_path))
    endless = [*training[:-4], "--steps", "100000", *training[-2:]]
    tuned = json.loads(
        ran(
            new,
            "paceline",
            "tune",
            "-o",
            "tuned",
            "--allow",
            "lossy",
            "--only",
            "fp16",
            "--steps",
            "18",
            "--json",
            "--",
            *endless,
            cwd=tmp_path,
        )
    )
    assert tuned["recorded"]["workers"] == 2
    kept = json.loads(ran(new, "paceline", "history", "--json", cwd=tmp_path))
    assert [entry["kind"] for entry in kept["entries"]].count("recording") == 2


@pytest.mark.needs("g++", "linux")
def test_the_wheel_says_on_which_systems_it_runs(wheel: Path) -> None:
    assert "-manylinux_" in wheel.name
