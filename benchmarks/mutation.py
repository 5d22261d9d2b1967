"""Mutation testing: which share of faults, put into the rooms that predict, do the tests catch?

cosmic-ray's operators make the faults, one a line; a fixed seed picks 300 lines of graph, replay,
cost, predict, the strategies and the alignment of clocks. A line that more files hold is as likely
as any other. Each fault is put into a private copy of the project, and the tests that reach its
line run there, fastest first, until one fails. A hang counts as caught, a line that no test reaches
as survived. Faults of the native core are not made.

    pip install cosmic-ray coverage        # the tools; the package does not depend on them
    python benchmarks/mutation.py --json   # goes on where it stopped; --budget MINUTES stops it

Rows are kept in benchmarks/results/mutation-rows.json, each as long as its file stays as it is.
`--again` runs the survivors anew, after tests were added. What a person found about a survivor
stands in benchmarks/mutation_judged.json and is printed with it.
"""

import argparse
import hashlib
import importlib.util
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import measure
from benchmarks.mutants import Fault, faults
from benchmarks.mutation_copy import HERE, Copy, CopyError, Outcome, Reach, copied

SEED, SAMPLE, QUICK_SAMPLE = 20261122, 300, 5
TOOLS = ("cosmic_ray", "coverage")
PLACES = (
    "graph/**/*.py replay/**/*.py cost/**/*.py predict/**/*.py strategies/**/*.py "
    "trace/clocks.py trace/bounds.py trace/strays.py"
).split()
TESTS = (
    "tests/graph tests/replay tests/cost tests/predict tests/strategies tests/trace tests/golden "
    "tests/verify tests/report tests/cli tests/cluster tests/place/pipeline "
    "tests/imagine/test_described_transformer.py"
).split()
MARKS = "not net and not live"
ROWS = measure.RESULTS / "mutation-rows.json"
REACH = HERE / "build" / "mutation-reach"
JUDGED = Path(__file__).parent / "mutation_judged.json"
CAUGHT = {Outcome.CAUGHT.value, Outcome.HUNG.value}


@dataclass(frozen=True)
class Row:
    """One fault and what became of it."""

    file: str
    line: int
    change: str
    outcome: str
    by: str
    seconds: float


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    if lacking := [tool for tool in TOOLS if importlib.util.find_spec(tool) is None]:
        print(f"{', '.join(lacking)} is lacking: pip install cosmic-ray coverage", file=sys.stderr)
        return 2
    sample = list(islice(faults(sources(), SEED), options.sample))
    rows = _kept(sample, options.again)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        _fill(rows, sample, copied(Path(folder)), begin + 60 * options.budget)
    ran = {fault.key: rows[fault.key] for fault in sample if fault.key in rows}
    taken = {"minutes": round((time.monotonic() - begin) / 60, 1)}
    figures = {"seed": SEED, "sample": len(sample), **summary(list(ran.values())), **taken}
    measure.report("mutation", figures, options, "cosmic-ray", "coverage", "hypothesis", "pytest")
    return 0


def sources() -> dict[str, str]:
    """The text of every file that faults are put into."""
    package = HERE / "src" / "paceline"
    files = sorted({file for place in PLACES for file in package.glob(place)})
    return {str(file.relative_to(package)): file.read_text() for file in files}


def summary(rows: list[Row]) -> dict[str, Any]:
    """Counts and shares, and every survivor with what was found about it."""
    judged: Mapping[str, str] = json.loads(JUDGED.read_text())
    survivors = [row for row in rows if row.outcome not in CAUGHT]
    caught = len(rows) - len(survivors)
    return {
        "run": len(rows),
        "caught": caught,
        "survived": len(survivors),
        "unreached": sum(row.outcome == Outcome.UNREACHED.value for row in rows),
        "caught_share": round(caught / len(rows), 4) if rows else None,
        "by_room": _by_room(rows),
        "survivors": [
            {**asdict(row), "judged": judged.get(f"{row.file}: {row.change}", "not judged yet")}
            for row in survivors
        ],
    }


def _by_room(rows: list[Row]) -> dict[str, str]:
    every = Counter(row.file.split("/")[0] for row in rows)
    caught = Counter(row.file.split("/")[0] for row in rows if row.outcome in CAUGHT)
    return {room: f"{caught[room]} of {every[room]}" for room in sorted(every)}


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = measure.parser(__doc__ or "")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--sample", type=int, metavar="N", help=f"faults; {SAMPLE}")
    parser.add_argument("--budget", type=float, default=120, metavar="MINUTES", help="120")
    parser.add_argument("--again", action="store_true", help="run the survivors anew")
    options = parser.parse_args(arguments)
    options.sample = options.sample or (QUICK_SAMPLE if options.quick else SAMPLE)
    return options


def _fill(rows: dict[str, Row], sample: list[Fault], copy: Copy, end: float) -> None:
    """Judge what has no row yet, keeping each row as it comes, until the time is over."""
    left = [fault for fault in sample if fault.key not in rows]
    if not left:
        return
    reach = _reach(copy)
    for fault in left:
        if time.monotonic() > end:
            return
        rows[fault.key] = row = _judged(fault, copy, reach)
        print(f"{row.outcome:9} {row.seconds:5.1f} s  {row.file}:{row.line}  {row.change}")
        sys.stdout.flush()
        _keep(rows)


def _judged(fault: Fault, copy: Copy, reach: Reach) -> Row:
    begin = time.monotonic()
    found = copy.judge(fault, reach)
    seconds = round(time.monotonic() - begin, 1)
    return Row(fault.file, fault.line, fault.change, found.outcome.value, found.by, seconds)


def _reach(copy: Copy) -> Reach:
    """Which test reaches what; kept below build/ as long as sources and tests are the same."""
    digest = hashlib.sha256()
    for file in sorted([*HERE.glob("src/**/*.py"), *HERE.glob("tests/**/*.py")]):
        digest.update(file.read_bytes())
    kept = REACH / f"{digest.hexdigest()[:16]}.json"
    if not kept.exists():
        present = [test for test in TESTS if (HERE / test).exists()]
        reach = copy.reach(present, MARKS)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(asdict(reach)))
        print(f"{len(reach.seconds)} tests pass in {sum(reach.seconds.values()):.0f} s, traced")
    return Reach(**json.loads(kept.read_text()))


def _kept(sample: list[Fault], again: bool) -> dict[str, Row]:
    """Rows of earlier runs; those of faults that no sample holds any more are dropped."""
    known = json.loads(ROWS.read_text()) if ROWS.exists() else {}
    rows = {fault.key: Row(**known[fault.key]) for fault in sample if fault.key in known}
    return {key: row for key, row in rows.items() if row.outcome in CAUGHT or not again}


def _keep(rows: Mapping[str, Row]) -> None:
    lines = [f"{json.dumps(key)}: {json.dumps(asdict(row))}" for key, row in sorted(rows.items())]
    ROWS.parent.mkdir(parents=True, exist_ok=True)
    ROWS.write_text("{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except CopyError as error:
        raise SystemExit(str(error)) from None
