"""A strategy that another package brings: the guide's example, found, predicted and applied."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "how" / "add-a-strategy.md"
WORKER = Path(__file__).parent / "contract" / "live" / "contract_worker.py"
TEXT = "round_robin(parts=4)"
PREDICT = """
from paceline.graph import OpKind, check
from paceline.graph.synthetic import TrainingJob, training
from paceline.strategies import known, parse
graph = training(TrainingJob())
made = check(parse("round_robin(parts=4)").transform(graph))
sent = lambda g: int(g.ops.size_bytes[g.ops.kind == OpKind.COLLECTIVE].sum())
print("round_robin" in known(), sent(graph) / sent(made))
"""


def example() -> str:
    found = re.search(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which a package brings the example."""
    folder = tmp_path_factory.mktemp("package")
    (folder / "round_robin.py").write_text(example())
    about = folder / "round_robin-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: round-robin\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[paceline.strategies]\nround_robin = round_robin\n")
    return {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{os.environ['PYTHONPATH']}"}


def run(arguments: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_example_is_short() -> None:
    assert len(example().splitlines()) < 60


def test_a_package_adds_a_strategy_that_is_found_and_predicted(installed: dict[str, str]) -> None:
    assert run(["-c", PREDICT], installed).split() == ["True", "4.0"]
    rows = json.loads(run(["-m", "paceline", "strategies", "--json"], installed))["strategies"]
    (row,) = [row for row in rows if row["name"] == "round_robin"]
    assert row["line"].startswith("Every n-th gradient travels")


@pytest.mark.live
@pytest.mark.needs("torch")
def test_an_added_strategy_trains_on_real_workers(
    installed: dict[str, str], tmp_path: Path
) -> None:
    run(
        [
            "-m",
            "torch.distributed.run",
            "--nproc-per-node",
            "2",
            str(WORKER),
            str(tmp_path),
            "20",
            TEXT,
        ],
        installed,
    )
    told: dict[str, Any] = json.loads((tmp_path / "rank-0.json").read_text())
    plain, under = told[""]["losses"], told[TEXT]["losses"]
    assert under[-1] <= 1.1 * plain[-1] < plain[0]
    assert told[TEXT]["sent"]["payload_bytes"] == len(told[TEXT]["weights"])
    assert told[TEXT]["after"] == told[TEXT]["fresh"]
