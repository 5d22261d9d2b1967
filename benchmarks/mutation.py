"""Mutation testing: which share of faults, put into the rooms that predict, do the tests catch?

cosmic-ray's operators make the faults, one a line; a fixed seed picks 300 lines of graph, replay,
cost, predict, the strategies and the alignment of clocks. A line that more files hold is as likely
as any other. Each fault is put into a private copy of the project, and the tests that reach its
line run there, fastest first, until one fails. A hang counts as caught, a line that no test reaches
as survived. Faults of the native core are not made.

    pip install cosmic-ray coverage        # the tools; the package does not depend on them
    python benchmarks/mutation.py --json   # goes on where it stopped; --budget MINUTES stops it

Rows are kept in benchmarks/results/mutation-rows.json, each as long as its file stays as it is.
`--again` runs survivors anew, after tests were added; those that are judged stay as they are. What
a person found about a survivor stands in benchmarks/mutation_judged.json and is printed with it.
"""

import argparse
import hashlib
import importlib.util
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping
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
KEPT = HERE / "build" / "mutation-reach"
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

    @property
    def told(self) -> str:
        return f"{self.file}: {self.change}"


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
    judged = _judgements()
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
            {**asdict(row), "judged": judged.get(row.told, "not judged yet")} for row in survivors
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
    parser.add_argument("--again", action="store_true", help="run unjudged survivors anew")
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
    """Which test reaches what; kept below build/, so that only changed test files run traced."""
    kept, now = KEPT / f"{_digest(HERE.glob('src/**/*.py'))}.json", _test_files()
    known: Mapping[str, Any] = json.loads(kept.read_text()) if kept.exists() else {"files": {}}
    changed = sorted(file for file, digest in now.items() if known["files"].get(file) != digest)
    gone = {*changed, *(known["files"].keys() - now.keys())}
    reach = Reach(**known["reach"]) if known["files"] else Reach({}, {})
    if gone:
        fresh = copy.reach(changed, MARKS) if changed else Reach({}, {})
        reach = reach.without(gone).joined(fresh)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps({"files": now, "reach": asdict(reach)}))
        print(f"{len(fresh.seconds)} tests pass in {sum(fresh.seconds.values()):.0f} s, traced")
    return reach


def _test_files() -> dict[str, str]:
    """Every test file that may judge, with a digest of its text."""
    places = [HERE / test for test in TESTS]
    single = {place for place in places if place.is_file()}
    files = single.union(*(place.rglob("test_*.py") for place in places))
    return {str(file.relative_to(HERE)): _digest([file]) for file in sorted(files)}


def _digest(files: Iterable[Path]) -> str:
    texts = (file.read_bytes() for file in sorted(files))
    return hashlib.sha256(b"\n".join(texts)).hexdigest()[:16]


def _kept(sample: list[Fault], again: bool) -> dict[str, Row]:
    """Rows of earlier runs; those of faults that no sample holds any more are dropped."""
    known = json.loads(ROWS.read_text()) if ROWS.exists() else {}
    rows = {fault.key: Row(**known[fault.key]) for fault in sample if fault.key in known}
    settled = {*_judgements()}
    return {
        key: row
        for key, row in rows.items()
        if not again or row.outcome in CAUGHT or row.told in settled
    }


def _judgements() -> dict[str, str]:
    """What was found about survivors, by file and change."""
    found: dict[str, str] = json.loads(JUDGED.read_text())
    return found


def _keep(rows: Mapping[str, Row]) -> None:
    lines = [f"{json.dumps(key)}: {json.dumps(asdict(row))}" for key, row in sorted(rows.items())]
    ROWS.parent.mkdir(parents=True, exist_ok=True)
    ROWS.write_text("{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except CopyError as error:
        raise SystemExit(str(error)) from None
