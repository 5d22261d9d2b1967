"""What a person would really run: the demo, and the lines in the README."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import paceline
from paceline.record.job import JOB_NAME

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "src" / "paceline" / "report" / "page" / "template.html"


@pytest.mark.live
@pytest.mark.slow
def test_the_demo_records_searches_applies_verifies_and_leaves_its_job(tmp_path: Path) -> None:
    (tmp_path / "demo" / "recording").mkdir(parents=True)  # as when it was run before
    (tmp_path / "demo" / "recording" / JOB_NAME).write_text("{}")
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "demo.py"), str(tmp_path / "demo")],
        capture_output=True,
        text=True,
        check=True,
    )
    said = done.stdout
    assert said.index("where each rank's time goes") < said.index("10 recorded steps")
    assert " ".join(said.split("What if?")[1].split()[6:11]) == "change step times as fast"
    lines = said.split("Searched, applied, verified:")[1].splitlines()
    titles = {line.split()[0] for line in lines if line.strip()}
    assert {"recorded", "bottleneck", "plan", "predicted", "measured", "verdict"} <= titles
    kept = {path.name for path in (tmp_path / "demo").iterdir()}
    assert {"graph", "recording", "outcome.json", "timeline.json.gz"} <= kept
    assert ("plan.json" in kept) == ("The whole training under the plan: accuracy" in said)
    assert ("report.html" in kept) == TEMPLATE.exists()
    assert ("make page" in said.split("More:")[1]) == (not TEMPLATE.exists())


def test_the_demo_imports_paceline_alone_of_paceline() -> None:
    tree = ast.parse((ROOT / "examples" / "demo.py").read_text())
    froms = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = [a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names]
    ours = {name for name in (*froms, *names) if name and name.split(".")[0] == "paceline"}
    assert ours == {"paceline"}


@pytest.mark.needs("torch")
def test_every_name_of_the_facade_is_there() -> None:
    assert [name for name in paceline.__all__ if not hasattr(paceline, name)] == []


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
