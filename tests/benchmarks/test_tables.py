"""The README's tables: written from results, in step with them, and honest about what is missed."""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from benchmarks.figures import TABLES
from benchmarks.tables import filled
results = json.loads(sys.argv[2])
name = sys.argv[3]
print(filled(f"<!-- begin:{name} -->\\nstale figures\\n<!-- end:{name} -->", results))
"""

MEASURED = {
    "date": "2026-01-02 03:04 UTC",
    "machine": {"cpu": "Zen", "cores": 2, "memory_gb": 4.0, "system": "Linux 6.1"},
    "versions": {"python": "3.11.2"},
    "load": [0.5, 0.4, 0.3],
}


def table(results: dict[str, object], name: str = "speed") -> str:
    command = [sys.executable, "-c", SCRIPT, str(ROOT), json.dumps(results), name]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_readme_is_in_step_with_the_results() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "tables.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.strip() == "all tables are in step"
    assert done.returncode == 0


def test_every_table_has_its_place_in_the_readme() -> None:
    names = re.findall(r"<!-- begin:(\w+) -->", (ROOT / "README.md").read_text())
    assert "speed" in names


def test_a_figure_that_misses_its_target_says_so() -> None:
    result = {
        "benchmark": "speed/replay",
        **MEASURED,
        "fixed_ops_per_s": 31.25e6,
        "priority_ops_per_s": 7.9e6,
        "edit_ms_median": 9.5,
        "draws_s": 12.34,
    }
    shown = table({"speed/replay": result})
    rows = {line.split(" | ")[0][2:]: line.split(" | ")[1:3] for line in shown.splitlines()}
    assert rows["replay, lanes in recorded order, 211,200 ops"] == [
        "31.2 million/s",
        "at least 25 million/s",
    ]
    assert rows["replay, lanes by priority, 211,200 ops"][0] == "7.9 million/s (missed)"
    assert rows["exact new step time after one tensor is resized, 211,200 ops"] == [
        "9.5 ms (missed)",
        "at most 8 ms",
    ]
    assert rows["replay of 1,000 steps with drawn durations, 211,200 ops"] == [
        "12.3 s",
        "at most 30 s",
    ]
    assert "Zen, 2 cores, 4.0 GB, Linux 6.1, Python 3.11.2, load 0.5." in shown
    beating = table({"speed/replay": {**result, "pulse_us": {"arithmetic": 70.0, "memory": 417.2}}})
    assert "load 0.5, pulse: arithmetic 70 us, memory 417.2 us." in beating
    assert "stale" not in shown


def test_a_figure_without_a_result_is_not_made_up() -> None:
    assert "| not measured yet | at least 25 million/s |" in table({})


def test_what_another_way_reached_in_the_same_run_comes_from_its_result() -> None:
    result = {
        "benchmark": "accuracy/cnn",
        **MEASURED,
        "mape": 0.07,
        "flops_mape": 0.514,
    }
    shown = table({"accuracy/cnn": result}, "input")
    ends = [line.split(" | ")[-1] for line in shown.splitlines() if "unseen convolutional" in line]
    assert ends == ["by FLOPs at one rate 51 % |"]
    assert "{" not in shown
