"""The file of a history: what goes in comes out, and no file is harmed."""

import logging
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from paceline.history import Entry, History, HistoryError, JobTraits, Kind, Wanted, keep
from paceline.history.schema import APPLICATION, MIGRATIONS, require_known

Drawn = Callable[..., Entry]


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "deep" / "history.sqlite", patience_s=0.2)


def test_entries_come_out_as_they_went_in_in_order_of_time(
    history: History, verdict: Drawn
) -> None:
    later = verdict(at_ns=2_000)
    bare = verdict(kind=Kind.RECORDING, strategies=(), predicted=None, measured=None)
    history.add(later, bare)
    assert history.entries() == [bare, later]


def test_a_history_that_is_not_there_has_no_entries_and_is_not_made(history: History) -> None:
    assert history.entries() == []
    assert history.forget(Wanted()) == 0
    assert not history.path.parent.exists()


def test_an_entry_that_is_added_twice_is_there_once(history: History, verdict: Drawn) -> None:
    entry = verdict()
    history.add(entry)
    history.add(entry)
    assert history.entries() == [entry]


def test_filters_leave_what_fits_all_of_them(history: History, verdict: Drawn) -> None:
    coded = verdict(strategies=("topk(ratio=0.01)",), at_ns=1_000)
    plain = verdict(strategies=(), at_ns=2_000, kind=Kind.TRIAL)
    other = verdict(job=JobTraits("fedc", 4, ""), name="python 100%_done.py", at_ns=3_000)
    history.add(coded, plain, other)
    fits = {
        Wanted(strategy="topk"): [coded],
        Wanted(strategy="top"): [],
        Wanted(strategy="none"): [plain],
        Wanted(kinds=(Kind.TRIAL,)): [plain],
        Wanted(job="fed"): [other],
        Wanted(job="100%_"): [other],
        Wanted(job="train.py"): [coded, plain],
        Wanted(since_ns=2_000, until_ns=3_000): [plain],
        Wanted(machine=coded.job.machine, strategy="topk"): [coded],
        Wanted(keys=(plain.key[:12], other.key)): [plain, other],
    }
    assert {wanted: history.entries(wanted) for wanted in fits} == fits


def test_what_is_forgotten_is_gone_with_all_its_parts(history: History, verdict: Drawn) -> None:
    history.add(verdict(job=JobTraits("secret", 2, "")), verdict())
    assert history.forget(Wanted(job="secret")) == 1
    assert len(history.entries()) == 1
    base = sqlite3.connect(history.path)
    counts = [
        base.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        for table in ("jobs", "entries", "predicted", "measured")
    ]
    base.close()
    assert counts == [1, 1, 1, 1]


def test_an_older_file_is_brought_to_this_version_and_reading_leaves_it(
    history: History, verdict: Drawn
) -> None:
    history.add(verdict())
    newer = History(history.path, migrations=(*MIGRATIONS, "ALTER TABLE entries ADD COLUMN x TEXT"))
    before = history.path.read_bytes()
    with pytest.raises(HistoryError, match="syntax error"):
        History(history.path, migrations=(*MIGRATIONS, "DROP COLUMN nothing")).add(verdict())
    assert len(newer.entries()) == 1
    assert history.path.read_bytes() == before
    newer.forget(Wanted(job="nobody"))
    with pytest.raises(HistoryError, match=r"version 2.*Update Paceline"):
        history.entries()


def test_a_history_of_a_newer_version_is_left_as_it_is(history: History, verdict: Drawn) -> None:
    history.add(verdict())
    base = sqlite3.connect(history.path)
    base.execute("PRAGMA user_version = 99")
    base.close()
    before = history.path.read_bytes()
    for use in (history.entries, lambda: history.add(verdict()), lambda: history.forget(Wanted())):
        with pytest.raises(HistoryError, match="version 99"):
            use()
    assert history.path.read_bytes() == before


@pytest.mark.parametrize("content", [b"no database at all, but long enough\n" * 99, b"SQLite fo"])
def test_a_damaged_history_is_left_as_it_is(
    history: History, verdict: Drawn, content: bytes
) -> None:
    history.path.parent.mkdir()
    history.path.write_bytes(content)
    with pytest.raises(HistoryError, match=r"damaged.*Move it away"):
        history.add(verdict())
    with pytest.raises(HistoryError, match="damaged"):
        history.entries()
    assert history.path.read_bytes() == content


def test_a_page_in_the_middle_that_was_overwritten_is_said(
    history: History, verdict: Drawn
) -> None:
    history.add(*(verdict() for _ in range(100)))
    content = bytearray(history.path.read_bytes())
    content[8192:-4096] = b"\xff" * (len(content) - 8192 - 4096)
    history.path.write_bytes(bytes(content))
    with pytest.raises(HistoryError, match="damaged"):
        history.entries()


def test_a_database_of_another_program_is_refused(history: History, verdict: Drawn) -> None:
    history.path.parent.mkdir()
    base = sqlite3.connect(history.path)
    base.execute("CREATE TABLE bookmarks (url TEXT)")
    base.close()
    with pytest.raises(HistoryError, match="another program"):
        history.add(verdict())


def test_the_file_says_that_it_is_a_history_and_many_may_read_while_one_writes(
    history: History, verdict: Drawn
) -> None:
    history.add(verdict())
    base = sqlite3.connect(history.path)
    assert base.execute("PRAGMA application_id").fetchone() == (APPLICATION,)
    assert base.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    base.execute("BEGIN IMMEDIATE")
    assert len(history.entries()) == 1
    base.close()


def test_what_a_locked_history_does_not_take_waits_and_goes_in_later(
    history: History, verdict: Drawn, caplog: pytest.LogCaptureFixture
) -> None:
    history.add(verdict(at_ns=0))
    base = sqlite3.connect(history.path)
    base.execute("BEGIN IMMEDIATE")
    first, second, third = (verdict(at_ns=at) for at in (1, 2, 3))
    with caplog.at_level(logging.WARNING):
        assert not keep(first, history=history)
        assert not keep(second, history=history)
    base.close()
    assert len(caplog.records) == 1
    assert "another process" in caplog.text
    assert "waits in" in caplog.text
    assert keep(third, history=history)
    assert history.entries()[1:] == [first, second, third]
    assert not list(history.path.parent.glob("*.aside/*"))


def test_what_waits_and_is_no_entry_stays_where_it_is(
    history: History, verdict: Drawn, caplog: pytest.LogCaptureFixture
) -> None:
    odd = history.path.parent / "history.sqlite.aside" / "odd.json"
    odd.parent.mkdir(parents=True)
    odd.write_text("{")
    assert keep(verdict(), history=history)
    assert odd.exists()
    assert "no entry" in caplog.text


def test_a_folder_that_cannot_be_made_costs_the_entry_and_is_said(
    verdict: Drawn, caplog: pytest.LogCaptureFixture
) -> None:
    assert not keep(verdict(), history=History(Path("/proc/none/history.sqlite")))
    assert "What was to be kept is lost" in caplog.text


def test_a_place_that_cannot_be_looked_at_is_said(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"cannot be used.*PACELINE_HISTORY"):
        History(tmp_path / ("x" * 300)).entries()


def in_small_disk(script: str, *, options: str) -> subprocess.CompletedProcess[str]:
    """Runs Python in a file system of its own, mounted at $DISK."""
    mount = f'mount -t tmpfs -o {options} none "$1" && exec "$2" -c "$3" "$1"'
    code = (
        "import sys, os, subprocess\nfrom pathlib import Path\n"
        "sys.path.insert(0, 'tests/history')\nfrom conftest import drawn\n"
        "from paceline.history import History, HistoryError, keep\n"
        "disk = Path(sys.argv[1]); history = History(disk / 'h.sqlite')\n" + script
    )
    command = ["unshare", "--mount", "sh", "-c", mount, "sh", "/mnt", sys.executable, code]
    return subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])


@pytest.mark.needs("root", "namespaces")
def test_a_full_disk_loses_nothing_that_was_kept() -> None:
    script = """
history.add(drawn())
(disk / 'rest').write_bytes(b'x' * (os.statvfs(disk).f_bavail * os.statvfs(disk).f_bsize))
assert not keep(*(drawn() for _ in range(200)), history=history)
assert len(history.entries()) == 1
(disk / 'rest').unlink()
assert keep(drawn(), history=history)
print(len(history.entries()) - len(list(disk.glob('h.sqlite.aside/*.json'))))
"""
    done = in_small_disk(script, options="size=512k")
    assert done.returncode == 0, done.stderr
    assert "full" in done.stderr
    assert "What was to be kept is lost" in done.stderr
    assert int(done.stdout) >= 2


@pytest.mark.needs("root", "namespaces")
def test_a_history_on_a_disk_that_may_not_be_written_is_read() -> None:
    script = """
history.add(drawn())
subprocess.run(['mount', '-o', 'remount,ro', str(disk)], check=True)
print(len(history.entries()))
assert not keep(drawn(), history=history)
"""
    done = in_small_disk(script, options="size=1m")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1\n"
    assert "What was to be kept is lost" in done.stderr


class Overtaken(sqlite3.Connection):
    """Another process makes the history at every statement of this one's look, or tries to."""

    makes: Callable[[], object]

    def execute(self, *given: Any) -> sqlite3.Cursor:
        found = super().execute(*given)
        with suppress(HistoryError):
            self.makes()
        return found


def test_a_file_that_another_process_makes_meanwhile_is_no_strangers(
    tmp_path: Path, verdict: Drawn
) -> None:
    path = tmp_path / "history.sqlite"
    base = sqlite3.connect(path, factory=Overtaken, isolation_level=None)
    base.makes = lambda: History(path, patience_s=0).add(verdict())
    assert require_known(base) in (0, len(MIGRATIONS))
    base.close()
