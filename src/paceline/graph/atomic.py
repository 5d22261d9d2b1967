"""Files and folders that appear whole or not at all.

    with atomic_folder(path) as folder:      # a hidden folder beside `path`
        write_durably(folder / "a", data)    # it takes the name `path` when the block ends well

On any failure the hidden folder is removed, an older `path` stays as it was, and what the
operating system refused becomes a `FileError`.
"""

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from paceline.errors import FileError


@contextmanager
def atomic_folder(path: Path, may_replace: Callable[[Path], bool]) -> Iterator[Path]:
    """A folder to fill, which then takes the place of `path`. An existing `path` is replaced only
    where it is an empty folder or `may_replace` recognises it."""
    _refuse_foreign(path, may_replace)
    with _errors_named(path), _parents(path):
        hidden = _hidden_name(path)
        hidden.mkdir()
        try:
            yield hidden
            _sync_folder(hidden)
            _take_place(hidden, path)
        finally:
            shutil.rmtree(hidden, ignore_errors=True)
        _sync_folder(path.parent)


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A file name to write to, whose file then takes the place of `path`."""
    if path.is_dir():
        raise FileError(f"{path} is a folder, a file is to be written there. Give a file name.")
    with _errors_named(path), _parents(path):
        hidden = _hidden_name(path)
        try:
            yield hidden
            with hidden.open("rb") as written:
                os.fsync(written.fileno())
            hidden.replace(path)
        finally:
            hidden.unlink(missing_ok=True)
        _sync_folder(path.parent)


def write_durably(path: Path, data: bytes | memoryview) -> None:
    """Write a new file and wait until the disk has it."""
    with path.open("xb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())


def _refuse_foreign(path: Path, may_replace: Callable[[Path], bool]) -> None:
    if not path.exists() and not path.is_symlink():
        return
    if not path.is_dir():
        raise FileError(f"{path} exists and is no folder. Choose another name, or remove it.")
    if any(path.iterdir()) and not may_replace(path):
        raise FileError(
            f"{path} exists and holds other things, which are not overwritten. "
            "Choose another name, or remove it."
        )


def _take_place(hidden: Path, path: Path) -> None:
    """Rename `hidden` to `path`; what stood there is set aside first and put back on failure."""
    aside = _hidden_name(path)
    had_older = path.exists()
    if had_older:
        path.rename(aside)
    try:
        hidden.rename(path)
    except OSError:
        if had_older:
            aside.rename(path)
        raise
    if had_older:
        shutil.rmtree(aside)


@contextmanager
def _errors_named(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(
            f"cannot write {path}: {reason}. Nothing was left behind. "
            "Choose a place that you may write to and that has room."
        ) from error


@contextmanager
def _parents(path: Path) -> Iterator[None]:
    """Make the folders above `path`; take the new ones away again on failure."""
    missing = [p for p in path.parents if not p.exists()]
    if path.parent.exists() and not path.parent.is_dir():
        raise FileError(f"cannot write {path}: {path.parent} is a file. Choose a folder.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for folder in missing:  # deepest first
            with suppress(OSError):
                folder.rmdir()
        raise


def _hidden_name(path: Path) -> Path:
    return path.parent / f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.partial"


def _sync_folder(path: Path) -> None:
    """Make renames in a folder survive a power cut. Windows opens no folders."""
    if os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
