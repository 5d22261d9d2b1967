"""What the mutation benchmark asks of pytest, which loads this file with `-p`.

Property tests draw the same examples each time and do not shrink the one that fails. Where
REACH_FILE names a file, it is written at the end: which test reaches which line of the package, and
how long each test takes. What a file's import or its fixtures reach, all tests of that file reach.
"""

import json
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

REACH_FILE = "REACH_FILE"


def pytest_configure(config: pytest.Config) -> None:
    from hypothesis import Phase, settings

    drawn = (Phase.explicit, Phase.generate)
    settings.register_profile(
        "mutation", derandomize=True, database=None, deadline=None, phases=drawn
    )
    settings.load_profile("mutation")
    if REACH_FILE in os.environ:
        config.pluginmanager.register(_Reach(Path(os.environ[REACH_FILE])))


class _Reach:
    """Counts the lines that run, by the test that is at work."""

    def __init__(self, kept_in: Path) -> None:
        import coverage

        self.kept_in = kept_in
        self.seconds: dict[str, float] = defaultdict(float)
        package = Path.cwd() / "src" / "paceline"
        self.coverage = coverage.Coverage(data_file=None, include=[f"{package}/*"])
        self.coverage.start()
        self.coverage.switch_context("import")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        name, begin = item.nodeid.split("[")[0], time.perf_counter()
        self.coverage.switch_context(name)
        try:
            return (yield)
        finally:
            self.coverage.switch_context("import")
            self.seconds[name] += time.perf_counter() - begin

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        """What a test file makes when it is imported serves all its tests."""
        if not isinstance(collector, pytest.Module):
            return (yield)
        self.coverage.switch_context(collector.nodeid)
        try:
            return (yield)
        finally:
            self.coverage.switch_context("import")

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[None]:
        """A fixture that outlives its test works for the whole file."""
        if fixturedef.scope == "function":
            return (yield)
        test = request._pyfuncitem.nodeid.split("[")[0]
        self.coverage.switch_context(test.split("::")[0])
        try:
            return (yield)
        finally:
            self.coverage.switch_context(test)

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        found = {"seconds": self.seconds, "lines": self._lines()}
        self.kept_in.write_text(json.dumps(found))

    def _lines(self) -> dict[str, dict[int, list[str]]]:
        package, data = Path.cwd() / "src" / "paceline", self.coverage.get_data()
        return {
            str(Path(file).relative_to(package)): data.contexts_by_lineno(file)
            for file in data.measured_files()
        }
