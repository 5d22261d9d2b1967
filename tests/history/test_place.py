"""Where the history is."""

from pathlib import Path

import pytest

from paceline.history import place
from paceline.history.place import data_folder


def test_the_environment_comes_first_then_the_project_then_the_user(tmp_path: Path) -> None:
    home = {"HOME": "/home/one"}
    inner = tmp_path / "project" / "deep"
    inner.mkdir(parents=True)
    user = Path("/home/one/.local/share/paceline/history.sqlite")
    assert place(home, inner) == user
    (tmp_path / "project" / ".paceline").mkdir()
    assert place(home, inner) == tmp_path / "project" / ".paceline" / "history.sqlite"
    assert place({**home, "PACELINE_HISTORY": "/elsewhere"}, inner) == Path("/elsewhere")


def test_it_can_be_switched_off() -> None:
    assert place({"PACELINE_HISTORY": "off"}, Path("/")) is None
    assert place({"PACELINE_HISTORY": " OFF "}, Path("/")) is None
    assert place({"PACELINE_HISTORY": ""}, Path("/")) is not None


def test_who_has_no_home_has_no_history(monkeypatch: pytest.MonkeyPatch) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", home)
    assert place({}, Path("/")) is None
    assert place({"PACELINE_HISTORY": "/elsewhere"}, Path("/")) == Path("/elsewhere")


def test_each_platform_has_its_own_folder_for_data() -> None:
    home = {"HOME": "/home/one", "LOCALAPPDATA": "/data"}
    assert data_folder(home, "darwin") == Path("/home/one/Library/Application Support/paceline")
    assert data_folder(home, "win32") == Path("/data/paceline")
    assert data_folder({**home, "XDG_DATA_HOME": "/x"}, "linux") == Path("/x/paceline")
    relative = {**home, "XDG_DATA_HOME": "x"}
    assert data_folder(relative, "linux") == Path("/home/one/.local/share/paceline")
