"""Write the README's tables of figures from the newest results, so that no figure is typed by hand,
and what was measured of each strategy into the package.

    python benchmarks/tables.py           # rewrite what stands between <!-- begin:NAME --> and end
    python benchmarks/tables.py --check   # exit code 1 where something differs

Which figures stands in `figures/`. Only full runs count: `--quick` results are passed over. A
figure that misses its target says so.
"""

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from statistics import stdev
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.figures import TABLES, Row, Table
from benchmarks.figures.loop_rows import loop_rows

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
OF_STRATEGIES = HERE.parent / "src/paceline/strategies/measured.json"
STEPS = ("accuracy/strategies", "accuracy/strategies-shapes")
OF_LEARNING = OF_STRATEGIES.with_name("learned.json")
Results = Mapping[str, Mapping[str, Any]]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; 1 where it differs")
    options = parser.parse_args(arguments)
    results = newest_results()
    written = {
        README: filled(README.read_text(), results),
        OF_STRATEGIES: by_strategy([results[name] for name in STEPS if name in results]),
        OF_LEARNING: learning_costs(results["accuracy/convergence"]),
    }
    differs = [path for path, text in written.items() if path.read_text() != text]
    if options.check:
        names = ", ".join(path.name for path in differs)
        print(f"{names}: run benchmarks/tables.py" if differs else "all tables are in step")
        return int(bool(differs))
    for path in differs:
        path.write_text(written[path])
    return 0


def by_strategy(sets: Sequence[Mapping[str, Any]]) -> str:
    """How far each strategy's predictions were off, for its page and for `paceline strategies`."""
    errors: dict[str, list[float]] = {}
    for row in (row for result in sets for row in result["rows"]):
        if "error" in row and " + " not in row["plan"]:
            errors.setdefault(row["plan"].partition("(")[0], []).append(abs(row["error"]))
    told = {
        name: {
            "rows": len(found),
            "mean_error": round(sum(found) / len(found), 4),
            "worst_error": round(max(found), 4),
        }
        for name, found in sorted(errors.items())
    }
    date = max(result["date"] for result in sets)[:10]
    return json.dumps({"date": date, "strategies": told}, indent=1) + "\n"


def learning_costs(result: Mapping[str, Any]) -> str:
    """What each strategy that is not exact cost in accuracy, for searches with that goal."""
    told = {
        row["strategy"]: {
            "points": row["points"],
            "error_points": round(_error(row["points_by_seed"]), 4),
            "seeds": row["seeds"],
        }
        for row in sorted(result["rows"], key=lambda row: str(row["strategy"]))
        if row.get("seeds", 0) > 1 and "points" in row
    }
    return json.dumps({"date": result["date"][:10], "costs": told}, indent=1) + "\n"


def _error(values: Sequence[float]) -> float:
    """Of a mean."""
    return stdev(values) / len(values) ** 0.5


def filled(text: str, results: Results) -> str:
    """The text with every marked table written anew."""
    made = {name: rendered(table, results) for name, table in TABLES.items()}
    made["loop-rows"] = loop_rows(results.get("accuracy/closed_loop", {}).get("rows", ()))
    for name, table in made.items():
        block = re.compile(f"(<!-- begin:{name} -->\n).*?(<!-- end:{name} -->)", re.DOTALL)
        text = block.sub(lambda m, t=table: m[1] + t + m[2], text)
    return text


def rendered(table: Table, results: Results) -> str:
    """A table in Markdown, and below it the machines that its figures come from."""
    head = [table.first_column, "figure", "must reach", "others"]
    rows = [head, ["---"] * len(head), *(_cells(row, results) for row in table.rows)]
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    used = dict.fromkeys(row.benchmark for row in table.rows if row.benchmark in results)
    sources = [_source(name, results[name]) for name in used]
    return "\n".join([*lines, "", *sources, ""])


def newest_results(folder: Path = HERE / "results") -> dict[str, dict[str, Any]]:
    """The newest full result of each benchmark."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.json")):
        result = json.loads(path.read_text())
        name = result.get("benchmark")
        if name is None or result.get("quick"):
            continue
        if name not in found or found[name]["date"] <= result["date"]:
            found[name] = result
    return found


def _cells(row: Row, results: Results) -> list[str]:
    value = _figure(row, results)
    word = "at least" if row.at_least else "at most"
    figure = "not measured yet" if value is None else value
    if isinstance(value, float):
        figure = row.show(value) + ("" if row.met(value) else " (missed)")
    return [row.label, figure, f"{word} {row.show(row.target)}", _peers(row, results)]


def _peers(row: Row, results: Results) -> str:
    """Figures of the same result where the text names them in braces; nothing where one is missing,
    or nothing was measured."""
    if "{" not in row.peers:
        return row.peers
    try:
        return row.peers.format_map(results.get(row.benchmark) or {}).replace("%", " %")
    except KeyError:
        return ""


def _figure(row: Row, results: Results) -> float | str | None:
    """A number, or why there is none although it was measured."""
    found: Any = reduce(_part, row.field.split("."), results.get(row.benchmark))
    return found if found is None or isinstance(found, str) else float(found)


def _part(found: Any, key: str) -> Any:
    """One step of a dotted path: a key, or the number of a row."""
    if isinstance(found, list):
        return found[int(key)] if int(key) < len(found) else None
    return (found or {}).get(key)


def _source(name: str, result: Mapping[str, Any]) -> str:
    machine, (file, _, option) = result["machine"], name.partition("-")
    parts = ", ".join(f"{part} {us:g} us" for part, us in result.get("pulse_us", {}).items())
    pulse = f", pulse: {parts}" if parts else ""
    command = f"{file}.py --{option}" if option else f"{file}.py"
    return (
        f"`benchmarks/{command}`, {result['date'][:10]}: {machine['cpu']}, "
        f"{machine['cores']} cores, {machine['memory_gb']} GB, {machine['system']}, "
        f"Python {result['versions']['python']}, load {result['load'][0]}{pulse}."
    )


if __name__ == "__main__":
    sys.exit(main())
