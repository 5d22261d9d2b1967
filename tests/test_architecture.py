"""A room imports only rooms that stand above it; importing stays light; a name names one thing."""

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "paceline"
ROOMS = (
    "wasm machine graph cluster launch record spread trace imagine cost measure replay runtime "
    "feed weave wire strategies predict analyse compare place search lab verify learn trial tune "
    "history serve bench report viewer trainers assist cli"
).split()
GROUND = {"errors", "engine", "callable_room", "notebook", "_core"}  # what every room may stand on


def imported_rooms(source: str) -> set[str]:
    """First part below `paceline` of each import in a source text."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
            if node.module == "paceline":
                names = [f"paceline.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("paceline.")}
    return found - {"__version__"}


def breaches(room: str, source: str) -> list[str]:
    """What a file of `room` imports from a room below its own."""
    below = ROOMS[ROOMS.index(room) + 1 :]
    return sorted(imported_rooms(source) & set(below))


def test_no_room_imports_a_room_below_it() -> None:
    found = {
        str(file.relative_to(SRC)): wrong
        for room in ROOMS
        for file in SRC.glob(f"{room}/**/*.py")
        if (wrong := breaches(room, file.read_text()))
    }
    assert not found


def test_the_law_fails_when_a_bottom_room_imports_a_top_one() -> None:
    assert breaches("graph", "from paceline.cli import main") == ["cli"]
    assert breaches("graph", "def f():\n    import paceline.report.text") == ["report"]
    assert breaches("replay", "from paceline.graph import Graph") == []


def test_every_folder_is_a_room_and_every_file_beside_them_is_ground() -> None:
    folders = {p.name for p in SRC.iterdir() if p.is_dir() and p.name != "__pycache__"}
    files = {p.stem.split(".")[0] for p in SRC.iterdir() if p.suffix in {".py", ".so"}}
    assert folders <= set(ROOMS)
    assert files - {"__init__", "__main__"} <= GROUND


ONE_THING = (
    "Bucket Calibration Cluster Effect Graph Host Interval Job Link Machine Network Op Phase Plan "
    "Prediction Prices Profile Question Recording Run Stage Step Strategy Timeline Worker"
).split()
MOST = 4  # classes that may share any other name, each in a room of its own


def class_names() -> Counter[str]:
    """How many classes of the product have a name, but for those that a file keeps to itself."""
    trees = (ast.parse(file.read_text()) for file in SRC.rglob("*.py"))
    names = (node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef))
    return Counter(name for name in names if not name.startswith("_"))


def test_the_names_of_the_main_things_name_one_thing_each() -> None:
    found = class_names()
    assert found["Graph"] == found["Step"] == found["Cluster"] == 1
    assert not {name: found[name] for name in ONE_THING if found[name] > 1}
    assert not {name: count for name, count in found.items() if count > MOST}


def test_nothing_is_called_utils() -> None:
    banned = {"utils", "common", "helpers", "core", "base", "misc", "manager"}
    assert not [p for p in SRC.rglob("*") if p.stem in banned]


@pytest.mark.parametrize("room", ["", *sorted(p.parent.name for p in SRC.glob("*/__init__.py"))])
def test_importing_a_room_brings_neither_torch_nor_heavy_libraries(room: str) -> None:
    module = f"paceline.{room}" if room else "paceline"
    code = (
        f"import sys, {module}\n"
        "heavy = {'torch', 'pyarrow', 'highspy', 'ortools', 'scipy', 'matplotlib', 'rich'}\n"
        "print(*sorted(heavy & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == []
