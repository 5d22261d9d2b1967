"""What a search tried, kept in a file as it goes, so that one that was stopped goes on from there.

Lines of JSON: first what the scores are of, then a plan a line. A last line that was cut short by
the end of its process is left out; a file of another job, cluster or version is refused.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np

from paceline import __version__
from paceline.errors import FileError
from paceline.graph import Graph
from paceline.search.judge import Judge
from paceline.search.score import Refused, Score
from paceline.search.trials import Scored
from paceline.strategies import parse

_FORMAT = 1


@dataclass(frozen=True)
class Notes:
    """What was tried before, and how to add to it."""

    before: tuple[Scored, ...] = ()
    add: Callable[[Scored], None] | None = None


@contextmanager
def noted(path: Path | None, judge: Judge) -> Iterator[Notes]:
    """No path: nothing is kept."""
    if path is None:
        yield Notes()
        return
    head = {"paceline_tried": _FORMAT, "of": fingerprint(judge)}
    before = _read(path, head) if path.exists() else None
    with path.open("a" if before is not None else "w") as file:
        if before is None:
            file.write(json.dumps(head) + "\n")
        yield Notes(before or (), lambda scored: _write(file.write, scored))


def fingerprint(judge: Judge) -> str:
    """Of all that a score rests on."""
    job = judge.candidates
    said = f"{__version__} {job.cluster!r} {job.question!r} {job.memory} {job.graph.facts!r}"
    return blake2b(said.encode() + digest_of(job.graph), digest_size=12).hexdigest()


def digest_of(graph: Graph) -> bytes:
    """Of a graph's ops and what they wait for."""
    state = blake2b(digest_size=16)
    for column in (*vars(graph.ops).values(), *vars(graph.deps).values()):
        state.update(np.ascontiguousarray(column).tobytes())
    return state.digest()


def _write(write: Callable[[str], object], scored: Scored) -> None:
    plan, score = scored
    told = {"refused": score.reason} if isinstance(score, Refused) else asdict(score)
    write(json.dumps({"plan": [str(each) for each in plan], **told}) + "\n")


def _read(path: Path, head: dict[str, object]) -> tuple[Scored, ...] | None:
    """None for an empty file."""
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    if not whole:
        return None
    lines = whole.splitlines()
    try:
        told = json.loads(lines[0])
        if told != head:
            raise FileError(
                f"{path} holds what was tried of another job, cluster, question or version of "
                "Paceline; give another file, or remove it"
            )
        found = tuple(_scored(json.loads(line)) for line in lines[1:])
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(
            f"{path} is no file of plans that were tried: {error}. Give another, or remove it"
        ) from error
    if len(whole) < len(text):
        path.write_text(whole)
    return found


def _scored(told: dict[str, object]) -> Scored:
    names = told.pop("plan")
    assert isinstance(names, list)
    plan = tuple(parse(name) for name in names)
    if "refused" in told:
        return plan, Refused(str(told["refused"]))
    return plan, Score(**told)  # type: ignore[arg-type]
