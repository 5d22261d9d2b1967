"""`follow`: what a host does that does not lead. It starts its part of each run when it is told to,
sends what its ranks write, and ends it when it is told to."""

import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from paceline import __version__
from paceline.launch import Process
from paceline.record.launch import hooked
from paceline.trial import Ending, Place, Ran, Watching, logged
from paceline.tune.errors import TuneError
from paceline.tune.hosts.meeting import Meeting
from paceline.tune.hosts.proof import SECRET, Stranger, proved
from paceline.tune.hosts.wire import (
    OURS,
    Begin,
    Ended,
    Hello,
    Lost,
    Refused,
    Said,
    SignedConnection,
    StopJob,
    Verdict,
    Wrote,
    within,
)

PLAN = "plan.json"
LIVE = "*.jsonl"
"""Files that only grow: they are sent while they do. Others are sent whole when the run is over."""
AGAIN_S = 0.5
LONGEST_S = 7 * 24 * 3600.0  # a run: the leader says when it is over
_CHUNK = 4 << 20


@dataclass(frozen=True)
class Followed:
    """How the loop ended for a host that followed."""

    decision: str
    plan: Path | None


def follow(
    meeting: Meeting,
    command: tuple[str, ...],
    folder: Path,
    environment: Mapping[str, str],
    place: Place,
) -> Followed:
    """Follow until the leader tells the verdict."""
    line = _met(meeting)
    own = _Own(line, command, folder.resolve(), environment, place)
    try:
        line.send(Hello(socket.gethostname(), meeting.number, list(command), __version__))
        while True:
            for message in own.come(AGAIN_S):
                if isinstance(message, Verdict):
                    return _followed(message, folder)
                if isinstance(message, Refused):
                    raise TuneError(f"the leading host does not take this one: {message.why}")
                if isinstance(message, Begin):
                    own.run(message)
    except Lost as error:
        raise TuneError(
            f"the leading host ({meeting.address}) is gone: {error}. What it says tells why"
        ) from error
    finally:
        line.close()


def _met(meeting: Meeting) -> SignedConnection:
    """Connected to the leader, who may start later and shares the secret."""
    connected = _connected(meeting)
    try:
        return SignedConnection(connected, proved(connected, meeting.key, leads=False))
    except Stranger as error:
        connected.close()
        raise TuneError(
            f"what answers at {meeting.address}:{meeting.port} does not take this host for one of "
            f"the job: {error}. Set {SECRET} to the same text on every host, or on none; another "
            "program may have the port: --meet HOST:PORT names another place"
        ) from error


def _connected(meeting: Meeting) -> socket.socket:
    end = time.monotonic() + meeting.wait_s
    while True:
        try:
            return socket.create_connection((meeting.address, meeting.port), timeout=5.0)
        except OSError as error:
            if time.monotonic() > end:
                raise TuneError(
                    f"no leading host answered at {meeting.address}:{meeting.port} within "
                    f"{meeting.wait_s:.0f} s ({error}). Start the same command on every host, or "
                    "name a place that all reach, with --meet HOST:PORT"
                ) from error
        time.sleep(AGAIN_S)


def _followed(message: Verdict, folder: Path) -> Followed:
    if message.plan is None:
        return Followed(message.decision, None)
    file = folder / PLAN
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(message.plan)
    return Followed(message.decision, file)


@dataclass(eq=False)
class _Own:
    """This host's part of the runs."""

    line: SignedConnection
    command: tuple[str, ...]
    root: Path
    environment: Mapping[str, str]
    place: Place
    sent: dict[Path, int] = field(default_factory=dict)
    told: list[Said] = field(default_factory=list)  # and not yet looked at

    def come(self, wait_s: float) -> Iterator[Said]:
        waiting, self.told = self.told, []
        yield from waiting
        yield from self.line.come(wait_s)

    def run(self, begin: Begin) -> None:
        folder = self.root / within(begin.folder)
        _clear(folder)
        self.sent = {}
        ours = {k: v for k, v in begin.variables.items() if k.startswith(OURS)}
        given = {k: v.replace(begin.root, str(self.root)) for k, v in ours.items()}
        process = Process(self.command, {**hooked(self.environment), **given})
        watching = Watching(lambda: self._enough(folder), lambda: False, LONGEST_S)
        ran = self.place(logged(process, folder / "job.log"), watching)
        self._send(folder, "*")
        self.line.send(Ended(ran.ending.value, ran.exit_code, ran.said))

    def _enough(self, folder: Path) -> bool:
        """Asked a few times a second: what is new goes to the leader."""
        self._send(folder, LIVE)
        self.told += self.line.come()
        return any(isinstance(message, StopJob) for message in self.told)

    def _send(self, folder: Path, names: str) -> None:
        for file in sorted(folder.rglob(f"rank-{names}")):
            size, begun = file.stat().st_size, self.sent.get(file, 0)
            with file.open("rb") as source:
                source.seek(begun)
                while begun < size:
                    data = source.read(min(_CHUNK, size - begun))
                    name = file.relative_to(self.root).as_posix()
                    self.line.send(Wrote(name, begun, data))
                    begun += len(data)
            self.sent[file] = begun


def _clear(folder: Path) -> None:
    """An earlier run's files go."""
    if folder.is_dir():
        for old in folder.rglob("rank-*"):
            old.unlink()
    folder.mkdir(parents=True, exist_ok=True)


def ran_of(ended: Ended) -> Ran:
    return Ran(Ending(ended.ending), ended.exit_code, ended.said)
