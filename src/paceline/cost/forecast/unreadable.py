"""What reading a file of another form ends in, and how that is said in one line."""

import csv
import zipfile
from typing import Final

import yaml

BROKEN: Final = (
    OSError, EOFError, ValueError, TypeError, AttributeError, IndexError, KeyError, csv.Error,
    yaml.YAMLError, zipfile.BadZipFile,
)  # fmt: skip


def spelled(error: BaseException) -> str:
    """One line."""
    if isinstance(error, FileNotFoundError):
        return "it is not there"
    if isinstance(error, KeyError):
        return f"it lacks, or does not know, {error.args[0]!r}"
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
