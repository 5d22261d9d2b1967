"""`LearnRun`: what a run of rounds was, and what it gave: work, messages and accuracy by round.

A run is a folder with one JSON file, so that it can be read, predicted from and compared later.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from paceline.graph.atomic import atomic_file
from paceline.learn.algorithm import Meeting
from paceline.learn.errors import LearnError

FILE = "learn.json"
FORMAT = 1
_ASKED = ("algorithm", "model", "partition", "clients", "samples", "per_round", "drops")


@dataclass(frozen=True)
class ClientWork:
    """What one client computed in a round."""

    client: int
    samples: int
    whole_samples: float  # the same in samples of the whole model: less where the model grows
    cpu_s: float


@dataclass(frozen=True)
class Trip:
    """One message, and to whom it went; clients by number, the server is -1."""

    source: int
    targets: tuple[int, ...]
    size_bytes: int
    after: bool = False  # behind the round's merge, as models that travel
    summed: bool = False  # part of an all-reduce, whatever the others are


@dataclass(frozen=True)
class Round:
    """What happened in a round."""

    number: int
    works: tuple[ClientWork, ...]
    trips: tuple[Trip, ...]
    absent: tuple[int, ...] = ()  # asked, and dropped out
    broken: tuple[int, ...] = ()  # sent infinite numbers or none, and were left out
    ended_s: float = 0.0  # since the run began, without the time that judging took
    merge_cpu_s: float = 0.0  # of the server, or of all clients that merge by themselves


@dataclass(frozen=True)
class Lost:
    """A worker that died, and its clients, which were left out from that round on."""

    worker: int
    round: int
    cause: str
    clients: tuple[int, ...]


@dataclass(frozen=True)
class Judged:
    """How well the model did behind a round."""

    round: int
    accuracy: float
    sent_bytes: int  # by all, since the run began


@dataclass(frozen=True)
class LearnRun:
    """One training, with one seed."""

    algorithm: str
    partition: str
    skew: float
    clients: int
    seed: int
    meeting: Meeting
    lag: int
    test_samples: int
    workers: int = 1
    model: str = ""
    rounds: tuple[Round, ...] = ()
    judged: tuple[Judged, ...] = ()
    notes: tuple[str, ...] = field(default=())
    lost: tuple[Lost, ...] = ()
    samples: int = 0  # of all clients
    per_round: int = 0  # clients that a server asks; 0: all
    drops: float = 0.0  # chance that a client drops out of a round

    @property
    def asked(self) -> dict[str, Any]:
        """What was asked for, but for the seed and the length."""
        return {name: getattr(self, name) for name in _ASKED}

    @property
    def accuracy(self) -> float:
        """At the end."""
        if not self.judged:
            raise LearnError("nothing of this run was judged; let it run for a round at least")
        return self.judged[-1].accuracy

    @property
    def sent_bytes(self) -> int:
        return self.judged[-1].sent_bytes if self.judged else 0

    @property
    def sample_s(self) -> float:
        """Processor time of a sample of the whole model; the median over all work."""
        each = sorted(w.cpu_s / w.whole_samples for r in self.rounds for w in r.works if w.samples)
        return each[len(each) // 2] if each else 0.0

    @property
    def broken(self) -> dict[int, int]:
        """In how many rounds a client was left out for what it sent."""
        found: dict[int, int] = {}
        for each in self.rounds:
            for client in each.broken:
                found[client] = found.get(client, 0) + 1
        return found


def sent_bytes(meeting: Meeting, trips: Sequence[Trip], members: int) -> int:
    """On the wire, every client being a machine of its own: a mean is an all-reduce over a ring,
    all else goes straight from one to another."""
    total = 0.0
    for trip in trips:
        if trip.summed or (meeting is Meeting.MEAN and not trip.after):
            total += 2 * (members - 1) / members * trip.size_bytes
        else:
            total += trip.size_bytes * sum(t != trip.source for t in trip.targets)
    return round(total)


def require_place(folder: Path) -> None:
    """That runs can be kept there, before they take their time."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LearnError(
            f"cannot keep runs in {folder}: {error.strerror}; choose another folder (-o)"
        ) from error


def save(runs: Sequence[LearnRun], folder: Path) -> None:
    document = {"format": FORMAT, "runs": [_document(run) for run in runs]}
    with atomic_file(folder / FILE) as draft:
        draft.write_text(json.dumps(document, separators=(",", ":")) + "\n")


def load(folder: Path) -> tuple[LearnRun, ...]:
    """All runs of a folder: one for each seed."""
    place = folder / FILE if folder.is_dir() else folder
    try:
        document = json.loads(place.read_text())
        if document["format"] != FORMAT:
            raise LearnError(
                f"{place} has format {document['format']}, this version reads {FORMAT}; run it anew"
            )
        return tuple(_run(each) for each in document["runs"])
    except OSError as error:
        raise LearnError(
            f"cannot read {place}: {error.strerror}; `paceline learn run -o FOLDER` makes one"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise LearnError(f"{place} is no run of `paceline learn`: {error}") from error


def _document(run: LearnRun) -> dict[str, Any]:
    rounds = [
        [
            each.number,
            [
                [w.client, w.samples, round(w.whole_samples, 3), round(w.cpu_s, 6)]
                for w in each.works
            ],
            [[t.source, t.targets, t.size_bytes, t.after, t.summed] for t in each.trips],
            each.absent,
            each.broken,
            round(each.ended_s, 6),
            round(each.merge_cpu_s, 6),
        ]
        for each in run.rounds
    ]
    judged = [list(asdict(each).values()) for each in run.judged]
    plain = {k: getattr(run, k) for k in run.__dataclass_fields__ if k not in ("rounds", "judged")}
    lost = [asdict(each) for each in run.lost]
    found = {"meeting": run.meeting.value, "rounds": rounds, "judged": judged, "lost": lost}
    return {**plain, **found}


def _run(given: dict[str, Any]) -> LearnRun:
    rounds = tuple(
        Round(
            number,
            tuple(ClientWork(*work) for work in works),
            tuple(Trip(source, tuple(to), *told) for source, to, *told in trips),
            tuple(absent),
            tuple(broken),
            ended_s,
            merge_cpu_s,
        )
        for number, works, trips, absent, broken, ended_s, merge_cpu_s in given["rounds"]
    )
    judged = tuple(Judged(*each) for each in given["judged"])
    lost = tuple(
        Lost(**{**each, "clients": tuple(each["clients"])}) for each in given.get("lost", ())
    )
    meeting, notes = Meeting(given["meeting"]), tuple(given["notes"])
    found = {"meeting": meeting, "notes": notes, "rounds": rounds, "judged": judged, "lost": lost}
    return LearnRun(**{**given, **found})
