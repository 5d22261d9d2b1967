"""Placement: value, proven bound, gap, seconds and memory on every input, beside other methods.

`latency_gap_worst` is the widest gap of a single sample's latency to its proven bound; `--latency`
answers that question alone, and is kept as a result of its own.

Inputs are the published files in ../shared/data/placement (or `--inputs DIR`, searched for
*.json), and a made-up branching graph of 36,866 ideals and 619 million nested pairs. Each answer
comes from a process of its own, so that its memory is its own.
"""

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import measure
from paceline.place.operators import Limits, problem_json, read_problem
from paceline.place.operators.latency import starts
from paceline.place.operators.schedule import of_split
from paceline.place.operators.synthetic import branching

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("PACELINE_SHARED", ROOT.parent / "shared")) / "data" / "placement"
NAME = "speed/placement"
LATENCY = "latency"
QUESTIONS = ("max load", "non-contiguous", LATENCY)
BRANCHES, BLOCKS = (7, 7, 7, 7), 9


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = measure.parser(__doc__ or "")
    parser.add_argument("--inputs", type=Path, default=SHARED, help="folder of problems")
    parser.add_argument("--seconds", type=float, help="limit of each integer program (60; quick 5)")
    parser.add_argument(
        "--latency", action="store_true", help="latency of a single sample, and nothing else"
    )
    options = parser.parse_args(arguments)
    seconds = options.seconds or (5.0 if options.quick else 60.0)
    questions, name = ((LATENCY,), f"{NAME}-latency") if options.latency else (QUESTIONS, NAME)
    rows = list(table(options.inputs, Asked(questions, seconds, options.quick)))
    figures = {"rows": rows, "latency_gap_worst": latency_gap(rows)}
    if not options.latency:
        figures["worst"] = worst(rows)
    return measure.report(name, figures, options, "ortools", "highspy")


@dataclass(frozen=True)
class Asked:
    """Which questions, how long an integer program may take, and whether few will do."""

    questions: tuple[str, ...]
    seconds: float
    quick: bool


def table(inputs: Path, asked: Asked) -> Iterator[dict[str, Any]]:
    """One row an input and question, printed as it comes."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "branching.json"
        made.write_text(json.dumps(problem_json(branching(BRANCHES, BLOCKS))))
        for path in [*sorted(inputs.rglob("*.json")), made]:
            if path.name.startswith("expert") or "expert" in str(path.parent):
                continue
            for row in rows_of(path, asked):
                print(_line(row), file=sys.stderr)
                yield row


def rows_of(path: Path, asked: Asked) -> Iterator[dict[str, Any]]:
    published = path.parent.name.endswith("Graphs")
    name = f"{path.parent.name}/{path.stem}" if published else path.stem
    limit = ("--time-limit", str(asked.seconds))
    if "latency" in path.name or "latency" in path.parent.parent.name:
        if LATENCY in asked.questions:
            answer = ask(path, "--latency", *limit)
            yield {"input": name, "question": LATENCY, **answer, "others": latency_starts(path)}
        return
    if "max load" in asked.questions:
        compared = [] if path.stem == "branching" else ["--compare", *_expert(path)]
        answer = ask(path, *compared)
        pairs = pairs_of(path)
        yield {"input": name, "question": "max load", "nested_pairs": pairs, **answer}
    few = asked.quick and "bert_l-3" not in path.stem
    if "non-contiguous" in asked.questions and path.stem != "branching" and not few:
        yield {"input": name, "question": "non-contiguous", **ask(path, "--noncontiguous", *limit)}


def _expert(path: Path) -> list[str]:
    """A split that a person made of this input, where the folder of inputs has one."""
    model = path.stem.rpartition("LayerGraphs-")[2]
    if "LayerGraphs" not in str(path):
        return []
    beside = (path.parent / f"expert-{model}.json", path.parents[1] / f"expert-{model}.json",
              path.parents[2] / "human-experts" / f"{model}_expert.json")  # fmt: skip
    return next((["--expert", str(file)] for file in beside if file.exists()), [])


def ask(path: Path, *options: str) -> dict[str, Any]:
    """`paceline place` in its own process."""
    command = [sys.executable, "-m", "paceline", "place", "--input", str(path), "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    if not done.stdout:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    data = json.loads(done.stdout)
    value = data.get("latency", data["max_load"])
    kept = ("lower_bound", "gap", "seconds", "peak_mb", "outcome", "method", "ideals", "notes")
    others = {k: v["max_load"] for k, v in data.get("baselines", {}).items() if v["valid"]}
    return {
        "value": value,
        **{key: data[key] for key in kept},
        "visited_pairs": data["nested_pairs_visited"],
        "others": others,
    }


def latency_starts(path: Path) -> dict[str, float]:
    problem = read_problem(path)
    return {n: of_split(problem, s).latency for n, s in starts(problem, Limits(seconds=20))}


def pairs_of(path: Path) -> int | None:
    """Nested pairs of ideals, where a formula gives them: the made-up graph's."""
    if path.stem != "branching":
        return None
    ideals = math.prod(n + 1 for n in BRANCHES)
    inside = math.prod((n + 1) * (n + 2) // 2 for n in BRANCHES)
    return BLOCKS * inside + BLOCKS * (BLOCKS - 1) // 2 * ideals**2


def worst(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Over all exact contiguous answers: the slowest, the largest, the widest gap."""
    exact = [row for row in rows if row["question"] == "max load"]
    return {
        "seconds": max((row["seconds"] for row in exact), default=0.0),
        "peak_mb": max((row["peak_mb"] for row in exact), default=0.0),
        "gap": max((row["gap"] for row in exact), default=0.0),
    }


def latency_gap(rows: list[dict[str, Any]]) -> float | None:
    """The widest gap between a single sample's latency and its proven bound, when time is up."""
    return max((row["gap"] for row in rows if row["question"] == LATENCY), default=None)


def _line(row: dict[str, Any]) -> str:
    others = " ".join(f"{k} {v:.4g}" for k, v in row["others"].items() if v is not None)
    return (
        f"{row['input']:45} {row['question']:14} {row['value']:10.4f} "
        f"bound {row['lower_bound']:10.4f} gap {row['gap']:.2%} {row['seconds']:6.2f} s "
        f"{row['peak_mb']:4.0f} MB {row['ideals']:6d} ideals  {others}"
    )


if __name__ == "__main__":
    main()
