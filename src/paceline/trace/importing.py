"""`import_traces`: files of any known format -> a run's folder with the files as they were and one
graph. Nothing is lost when the import fails: the copies are made first, the graph last."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from paceline.errors import FileError, TraceError
from paceline.graph import Graph, save_graph
from paceline.graph.chakra import read_chakra
from paceline.graph.files import KEPT
from paceline.trace.build import build
from paceline.trace.parts import RankTrace, build_spread
from paceline.trace.readers import Format, format_of, read_all
from paceline.trace.readers.source import Source, sources

RAW: Final = "raw"


@dataclass(frozen=True)
class Import:
    """How to read what was given."""

    ranks: tuple[int, ...] | None = None  # numbers the files in the order given
    salvage: bool = False  # take what truncated files still hold
    on: str = ""  # several workers, one task per rank: processes, dask://..., ray://...


def import_traces(paths: Sequence[Path], out: Path, how: Import | None = None) -> Graph:
    """Keep the files under `out`/raw, and the graph of all of them in `out`/graph."""
    _keep(paths, out / RAW)
    graph = import_graph(paths, how or Import())
    save_graph(graph, out / KEPT)
    return graph


def import_graph(paths: Sequence[Path], how: Import) -> Graph:
    """The graph of all given files, without keeping anything."""
    given = sources(list(paths))
    if chakra := [source for source in given if format_of(source) is Format.CHAKRA]:
        return _chakra_graph(paths, given, chakra)
    if how.on:
        return build_spread(_by_rank(given, how), how.on)
    return build(read_all(given, ranks=how.ranks, salvage=how.salvage))


def _by_rank(given: list[Source], how: Import) -> list[RankTrace]:
    if how.ranks is None:
        return [RankTrace(source, None, how.salvage) for source in given]
    if len(how.ranks) != len(given):
        raise TraceError(f"--ranks names {len(how.ranks)} ranks for {len(given)} traces; name each")
    return [RankTrace(source, rank, how.salvage) for source, rank in zip(given, how.ranks)]


def _keep(paths: Sequence[Path], raw: Path) -> None:
    """Copies (links, where the disk allows) of everything given."""
    if raw.exists() and any(raw.iterdir()):
        raise FileError(f"{raw} already holds files; choose another -o, or remove the old run")
    raw.mkdir(parents=True, exist_ok=True)
    for path in paths:
        if not path.exists():
            raise FileError(f"{path} does not exist; give trace files, folders or archives")
        target = raw / (path.resolve().name or "traces")
        number = 1
        while target.exists():
            target = raw / f"{number}-{path.resolve().name}"
            number += 1
        if path.is_dir():
            shutil.copytree(path, target, copy_function=_link_or_copy)
        else:
            _link_or_copy(str(path), str(target))


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(os.path.realpath(source), target)
    except OSError:
        shutil.copy2(source, target)


def _chakra_graph(paths: Sequence[Path], given: list[Source], chakra: list[Source]) -> Graph:
    """Chakra's protobuf traces are a graph already; they are not mixed with others."""
    if len(chakra) != len(given) and len(paths) > 1:
        raise TraceError("Chakra .et traces are graphs of their own: import them without others")
    if any(source.member for source in chakra):
        raise TraceError(f"unpack {chakra[0].path} first: Chakra .et traces are read from a folder")
    return read_chakra(paths[0])
