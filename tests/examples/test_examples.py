"""What a person would really run: the demo, and the lines in the README."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.record.sidecar import JOB_NAME

ROOT = Path(__file__).parents[2]


@pytest.mark.live
def test_the_demo_ranks_changes_predicts_another_network_and_leaves_its_job(tmp_path: Path) -> None:
    for earlier in ("recording", "lab"):  # as when it was run before
        (tmp_path / "demo" / earlier).mkdir(parents=True)
        (tmp_path / "demo" / earlier / JOB_NAME).write_text("{}")
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "demo.py"), str(tmp_path / "demo")],
        capture_output=True,
        text=True,
        check=True,
    )
    after = done.stdout.split("What if?")[1].split()
    assert " ".join(after[:5]) == "change step times as fast"
    assert "10 recorded steps" in done.stdout
    slower, faster = re.findall(r"(\d+[MG]bps): a step of", done.stdout)
    assert (slower, faster) == ("100Mbps", "10Gbps")
    proved = "Run in the lab at 100Mbps" in done.stdout
    assert proved or "Not proved here" in done.stdout
    kept = {path.name for path in (tmp_path / "demo").iterdir()} - {"lab"}
    assert kept == {"graph", "recording", "timeline.json.gz"}


def test_the_example_in_the_readme_runs_in_twelve_lines() -> None:
    (source,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len([line for line in source.splitlines() if line]) <= 12
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=True
    )
    first, last = done.stdout.splitlines()
    assert first.startswith("step of ")
    assert float(last.split()[0]) > 1


def test_every_page_that_the_readme_links_to_is_there() -> None:
    links = re.findall(r"\]\(([\w/.-]+)\)", (ROOT / "README.md").read_text())
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
