"""Files and folders appear whole or not at all, whatever interrupts their writing."""

from pathlib import Path

import pytest

from paceline.errors import FileError
from paceline.graph.atomic import atomic_file, atomic_folder, write_durably


def always(_: Path) -> bool:
    return True


def never(_: Path) -> bool:
    return False


def contents(folder: Path) -> dict[str, str]:
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): p.read_text() for p in files}


def half_written_folder(path: Path, interruption: type[BaseException]) -> None:
    with atomic_folder(path, always) as folder:
        (folder / "x").write_text("half")
        raise interruption


def half_written_file(path: Path, interruption: type[BaseException]) -> None:
    with atomic_file(path) as hidden:
        hidden.write_text("half")
        raise interruption


def test_a_folder_takes_its_place_when_it_is_whole(ram: Path) -> None:
    with atomic_folder(ram / "new" / "a", never) as folder:
        write_durably(folder / "x", b"1")
        assert not (ram / "new" / "a").exists()
    assert contents(ram) == {"new/a/x": "1"}


def test_a_folder_replaces_only_what_is_recognised_or_empty(ram: Path) -> None:
    (ram / "empty").mkdir()
    (ram / "full").mkdir()
    (ram / "full" / "x").write_text("old")
    with atomic_folder(ram / "empty", never) as folder:
        (folder / "x").write_text("new")
    with (
        pytest.raises(FileError, match="holds other things, which are not overwritten"),
        atomic_folder(ram / "full", never),
    ):
        pytest.fail("the block must not run")
    with atomic_folder(ram / "full", always) as folder:
        (folder / "y").write_text("new")
    assert contents(ram) == {"empty/x": "new", "full/y": "new"}


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, ValueError, OSError])
def test_what_interrupts_leaves_the_older_folder_and_nothing_else(
    ram: Path, interruption: type[BaseException]
) -> None:
    (ram / "a").mkdir()
    (ram / "a" / "x").write_text("old")
    for path in (ram / "a", ram / "deep" / "er" / "b"):
        with pytest.raises((interruption, FileError)):
            half_written_folder(path, interruption)
    assert contents(ram) == {"a/x": "old"}
    assert [p.name for p in ram.iterdir()] == ["a"]


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, ValueError, OSError])
def test_what_interrupts_leaves_the_older_file_and_nothing_else(
    ram: Path, interruption: type[BaseException]
) -> None:
    (ram / "a").write_text("old")
    for path in (ram / "a", ram / "deep" / "b"):
        with pytest.raises((interruption, FileError)):
            half_written_file(path, interruption)
    assert contents(ram) == {"a": "old"}
    assert [p.name for p in ram.iterdir()] == ["a"]


def test_a_file_takes_its_place_when_it_is_whole(ram: Path) -> None:
    for text in ("one", "two"):
        with atomic_file(ram / "a") as hidden:
            hidden.write_text(text)
        assert contents(ram) == {"a": text}


def test_errors_of_the_system_are_named(ram: Path) -> None:
    (ram / "file").write_text("")
    with (
        pytest.raises(FileError, match=r"cannot write .*/file/a: .*/file is a file\."),
        atomic_folder(ram / "file" / "a", never),
    ):
        pytest.fail("the block must not run")
    with (
        pytest.raises(FileError, match="is a folder, a file is to be written"),
        atomic_file(ram),
    ):
        pytest.fail("the block must not run")
