"""Write the README's tables of figures from the newest results, so that no figure is typed by hand.

    python benchmarks/tables.py           # rewrite what stands between <!-- begin:NAME --> and end
    python benchmarks/tables.py --check   # exit code 1 where the README differs

Which figures stands in `figures.py`. Only full runs count: `--quick` results are passed over. A
figure that misses its target says so.
"""

import argparse
import json
import re
import sys
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.figures import TABLES, Row, Table

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
Results = Mapping[str, Mapping[str, Any]]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; 1 where it differs")
    options = parser.parse_args(arguments)
    old = README.read_text()
    new = filled(old, newest_results())
    if options.check:
        print(
            "README.md is in step" if new == old else "README.md differs: run benchmarks/tables.py"
        )
        return int(new != old)
    README.write_text(new)
    return 0


def filled(text: str, results: Results) -> str:
    """The text with every marked table written anew."""
    for name, table in TABLES.items():
        block = re.compile(f"(<!-- begin:{name} -->\n).*?(<!-- end:{name} -->)", re.DOTALL)
        text = block.sub(lambda m, t=table: m[1] + rendered(t, results) + m[2], text)
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
    figure = "not measured yet" if value is None else row.show(value)
    if value is not None and not row.met(value):
        figure += " (missed)"
    return [row.label, figure, f"{word} {row.show(row.target)}", row.peers]


def _figure(row: Row, results: Results) -> float | None:
    found: Any = reduce(_part, row.field.split("."), results.get(row.benchmark))
    return None if found is None else float(found)


def _part(found: Any, key: str) -> Any:
    """One step of a dotted path: a key, or the number of a row."""
    if isinstance(found, list):
        return found[int(key)] if int(key) < len(found) else None
    return (found or {}).get(key)


def _source(name: str, result: Mapping[str, Any]) -> str:
    machine = result["machine"]
    return (
        f"`benchmarks/{name}.py`, {result['date'][:10]}: {machine['cpu']}, "
        f"{machine['cores']} cores, {machine['memory_gb']} GB, {machine['system']}, "
        f"Python {result['versions']['python']}, load {result['load'][0]}."
    )


if __name__ == "__main__":
    sys.exit(main())
