"""A private copy of the project: faults are put into it, and the tests that reach them are run.

The checkout is never touched. A `sitecustomize` of the copy drops the import hooks of editable
installs, which would bring the checkout's package back.
"""

import ast
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path

from benchmarks.mutants import Fault
from benchmarks.mutation_plugin import REACH_FILE

HERE = Path(__file__).parents[1]
COPIED = ("src", "tests", "examples", "benchmarks", "docs", "pyproject.toml", "README.md",
          "CONTRIBUTING.md")  # fmt: skip
NO_HOOKS = """import sys
sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in type(f).__module__]
"""
PASSED, NO_TESTS = 0, 5  # exit codes of pytest


class Outcome(Enum):
    """What became of a fault."""

    CAUGHT = "caught"
    HUNG = "hung"  # counts as caught: no run of the tests would end green
    SURVIVED = "survived"
    UNREACHED = "unreached"  # survived: no test reaches the line


class CopyError(Exception):
    """The copy cannot tell faults from sound code."""


@dataclass(frozen=True)
class Judgement:
    """The outcome, and the test that caught the fault where one did."""

    outcome: Outcome
    by: str = ""


@dataclass(frozen=True)
class Reach:
    """Which test reaches which line, and how long each test takes, as the plugin writes it."""

    seconds: dict[str, float]
    lines: dict[str, dict[str, list[str]]]

    def of(self, file: str, line: int, source: str) -> list[str]:
        """Tests that reach a line, fastest first. What runs at import all tests reach that run any
        of the file, and a file of constants all that there are."""
        reached = self.lines.get(file, {})
        span = _statement(source, line)
        names = {name for at in span for name in reached.get(str(at), ())} - {"import", ""}
        at_import = any("import" in reached.get(str(at), ()) for at in span)
        if not span or (at_import and not names):
            inside = {str(at) for at in _in_functions(source)}
            names = {name for at in inside & reached.keys() for name in reached[at]}
            names = (names - {"import", ""}) or set(self.seconds)
        return sorted(self._tests(names), key=lambda test: self.seconds[test])

    def without(self, files: Collection[str]) -> "Reach":
        """Less what the tests of these files reach."""
        lines = {
            file: {line: _outside(tests, files) for line, tests in reached.items()}
            for file, reached in self.lines.items()
        }
        return Reach({test: self.seconds[test] for test in _outside(self.seconds, files)}, lines)

    def joined(self, other: "Reach") -> "Reach":
        """What the tests of both reach."""
        lines = {
            file: {line: [*self._at(file, line), *other._at(file, line)] for line in known}
            for file in self.lines.keys() | other.lines.keys()
            if (known := self.lines.get(file, {}).keys() | other.lines.get(file, {}).keys())
        }
        return Reach({**self.seconds, **other.seconds}, lines)

    def _at(self, file: str, line: str) -> list[str]:
        return self.lines.get(file, {}).get(line, [])

    def _tests(self, names: Iterable[str]) -> set[str]:
        whole = tuple(f"{name}::" for name in names if name.endswith(".py"))
        files = {test for test in self.seconds if whole and test.startswith(whole)}
        return files | {name for name in names if name in self.seconds}


@dataclass(frozen=True)
class Copy:
    """A folder that holds package and tests."""

    root: Path

    @property
    def package(self) -> Path:
        return self.root / "src" / "paceline"

    @cached_property
    def environment(self) -> dict[str, str]:
        first = self.root / "first"
        first.mkdir(exist_ok=True)
        (first / "sitecustomize.py").write_text(NO_HOOKS)
        path = os.pathsep.join(map(str, (first, self.root / "src", HERE)))
        return {**os.environ, "PYTHONPATH": path}

    def reach(self, tests: Iterable[str], marks: str) -> Reach:
        """Run the tests on sound code; they must pass."""
        kept_in = self.root / "reach.json"
        environment = {**self.environment, REACH_FILE: str(kept_in)}
        command = [*_pytest(), "-m", marks, *tests]
        done = subprocess.run(
            command, cwd=self.root, env=environment, capture_output=True, text=True
        )
        if done.returncode != PASSED:
            raise CopyError(
                f"the tests fail on sound code, so they can judge no fault:\n{done.stdout[-3000:]}"
                f"{done.stderr[-1000:]}"
            )
        return Reach(**json.loads(kept_in.read_text()))

    def judge(self, fault: Fault, reach: Reach) -> Judgement:
        """Put the fault in, run the tests that reach it until one fails, take it out."""
        path = self.package / fault.file
        sound = path.read_text()
        tests = reach.of(fault.file, fault.line, sound)
        if not tests:
            return Judgement(Outcome.UNREACHED)
        _write(path, fault.text)
        try:
            return self._run(tests, reach)
        finally:
            _write(path, sound)

    def _run(self, tests: list[str], reach: Reach) -> Judgement:
        asked = self.root / "tests.txt"
        asked.write_text("\n".join(tests))
        times = [reach.seconds[test] for test in tests]
        patience = ["--timeout", str(round(20 + 5 * max(times)))]
        try:
            done = subprocess.run(
                [*_pytest(), "-x", *patience, f"@{asked}"],
                cwd=self.root,
                env={**self.environment, "PYTHONDONTWRITEBYTECODE": "1"},
                capture_output=True,
                text=True,
                timeout=60 + 3 * sum(times),
            )
        except subprocess.TimeoutExpired:
            return Judgement(Outcome.HUNG)
        return _judgement(done)


def _outside(tests: Iterable[str], files: Collection[str]) -> list[str]:
    return [test for test in tests if test.split("::")[0] not in files]


def copied(root: Path) -> Copy:
    """The checkout with its native core, in an empty folder."""
    for name in COPIED:
        source = HERE / name
        if source.is_dir():
            shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, root / name)
    core = importlib.util.find_spec("paceline._core")
    if core is not None and core.origin is not None:
        shutil.copy(core.origin, root / "src" / "paceline")
    return Copy(root)


def _judgement(done: subprocess.CompletedProcess[str]) -> Judgement:
    if done.returncode == NO_TESTS:
        raise CopyError(f"pytest found none of the tests asked for:\n{done.stdout[-2000:]}")
    if done.returncode == PASSED:
        return Judgement(Outcome.SURVIVED)
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return Judgement(Outcome.CAUGHT, failed[1] if failed else f"exit code {done.returncode}")


def _pytest() -> list[str]:
    plugins = ["-p", "no:cacheprovider", "-p", "benchmarks.mutation_plugin"]
    return [sys.executable, "-m", "pytest", "-q", *plugins]


def _write(path: Path, text: str) -> None:
    """With no bytecode left of the old text, which may be as long and as young."""
    path.write_text(text)
    for old in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        old.unlink()


def _statement(source: str, line: int) -> range:
    """Lines of the innermost statement of a function that holds the line; none at module level."""
    holding = [span for span in _spans(source) if line in span]
    return min(holding, key=len, default=range(0))


def _in_functions(source: str) -> set[int]:
    return {line for span in _spans(source) for line in span}


def _spans(source: str) -> Iterator[range]:
    """Lines of each statement of a function."""
    for function in _functions(source):
        yield from map(_lines, _statements(function))


def _functions(source: str) -> Iterator[ast.AST]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return (node for node in ast.walk(ast.parse(source)) if isinstance(node, kinds))


def _statements(function: ast.AST) -> Iterator[ast.stmt]:
    nodes = ast.walk(function)
    return (node for node in nodes if isinstance(node, ast.stmt) and node is not function)


def _lines(statement: ast.stmt) -> range:
    """Of a compound statement, its head."""
    assert statement.end_lineno is not None
    body = getattr(statement, "body", None)
    end = body[0].lineno if body else statement.end_lineno + 1
    return range(statement.lineno, max(end, statement.lineno + 1))
