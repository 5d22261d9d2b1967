"""Progress: silent where there is no terminal, seen where there is one."""

import os
import pty
import subprocess
import sys

import pytest

from paceline.report import tracked, working

SCRIPT = """
from paceline.report import tracked, working
with working("thinking hard"):
    pass
assert list(tracked(range(3), "counting")) == [0, 1, 2]
"""


def test_without_a_terminal_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with working("thinking hard"):
        assert list(tracked(range(3), "counting")) == [0, 1, 2]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("no_color", ["", "1"])
def test_on_a_terminal_it_is_seen_and_no_color_is_respected(no_color: str) -> None:
    reader, terminal = pty.openpty()
    environment = {**os.environ, "NO_COLOR": no_color, "TERM": "xterm-256color"}
    subprocess.run([sys.executable, "-c", SCRIPT], stderr=terminal, env=environment, check=True)
    seen = os.read(reader, 65536)
    os.close(terminal)
    os.close(reader)
    assert b"thinking hard" in seen
    assert b"counting" in seen
    assert (b"\x1b[38;5" in seen or b"\x1b[32m" in seen) == (not no_color)
