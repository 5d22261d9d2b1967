"""Where the history is: PACELINE_HISTORY, else the project's folder, else the user's."""

import sys
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "PACELINE_HISTORY"
PROJECT = ".paceline"
FILE = "history.sqlite"
OFF = frozenset({"off", "0", "no", "none"})


def place(environment: Mapping[str, str], here: Path) -> Path | None:
    """The history's file, which may not be there yet; None where it is switched off, or has no
    place.

    A project has its own where a folder `.paceline` stands in the working folder or above it.
    """
    told = environment.get(VARIABLE, "").strip()
    if told.lower() in OFF:
        return None
    if told:
        return Path(told).expanduser()
    project = next((up / PROJECT for up in (here, *here.parents) if (up / PROJECT).is_dir()), None)
    try:
        return (project or data_folder(environment, sys.platform)) / FILE
    except RuntimeError:  # who runs this has no home, as in some containers
        return None


def data_folder(environment: Mapping[str, str], platform: str) -> Path:
    """Where programs keep a user's data, by the platform's convention."""
    home = Path(environment.get("HOME") or Path.home())
    if platform == "darwin":
        return home / "Library" / "Application Support" / "paceline"
    if platform == "win32":
        return Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local") / "paceline"
    # a relative path in XDG_DATA_HOME is to be ignored
    told = environment.get("XDG_DATA_HOME", "")
    data = Path(told) if told.startswith("/") else home / ".local" / "share"
    return data / "paceline"
