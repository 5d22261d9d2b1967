"""Commands that README and docs show are ones that the parsers take."""

import re
import shlex
from pathlib import Path

import pytest

from paceline.cli import _needed, _parser

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
SHOWN = re.compile(r"^ {4}(?:\$ )?(paceline [a-z][^|>\n]*)", re.MULTILINE)
"""A line of its own, up to what the shell does with its output."""


def commands(page: Path) -> list[str]:
    return [found.split("  #")[0].strip() for found in SHOWN.findall(page.read_text())]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_shows_commands_that_there_are(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = _parser(_needed(["--help"]))
    for command in commands(page):
        try:
            parser.parse_args(shlex.split(command.rstrip("\\"))[1:])
        except SystemExit:
            pytest.fail(f"{command}: {capsys.readouterr().err.strip().splitlines()[-1]}")


def test_many_commands_are_shown() -> None:
    assert sum(len(commands(page)) for page in PAGES) > 80
