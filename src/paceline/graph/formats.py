"""Any graph on disk, whatever its format: the one door that commands read through."""

from pathlib import Path

from paceline.graph.chakra import read_chakra
from paceline.graph.files import HEADER, KEPT, load_graph
from paceline.graph.graph import Graph


def read_graph(path: str | Path) -> Graph:
    """The graph of a saved folder, of a run that holds one, or of Chakra traces."""
    path = Path(path)
    saved = any((folder / HEADER).is_file() for folder in (path, path / KEPT))
    chakra = path.suffix == ".et" or (path.is_dir() and any(path.glob("*.et")))
    return read_chakra(path) if chakra and not saved else load_graph(path)
