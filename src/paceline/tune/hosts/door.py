"""Where the hosts of a job come in, one after the other; strangers are refused, and told."""

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from paceline import __version__
from paceline.trial import Ran
from paceline.tune.errors import TuneError
from paceline.tune.hosts.meeting import Meeting
from paceline.tune.hosts.proof import PATIENCE_S, SECRET, Stranger, proved
from paceline.tune.hosts.wire import Hello, Lost, Refused, SignedConnection


@dataclass(eq=False)
class FollowingHost:
    """One that follows."""

    hello: Hello
    line: SignedConnection
    ended: Ran | None = None  # its part of the latest run
    lost: str = ""
    at_s: float = 0.0  # when it ended or was lost

    def __str__(self) -> str:
        number = "" if self.hello.number is None else f" (number {self.hello.number})"
        return f"host {self.hello.host}{number}"


def _waiting(meeting: Meeting) -> str:
    line = f"waiting for {meeting.hosts - 1} other hosts at {meeting.address}:{meeting.port}"
    if meeting.secret:
        return line
    return f"{line}; {SECRET} is not set, so who knows the job's command may pass for one of them"


@dataclass(eq=False)
class Door:
    """Where the hosts meet."""

    listening: socket.socket
    meeting: Meeting
    told: Callable[[str], None]
    strangers: list[str] = field(default_factory=list)

    def next(self, end_s: float) -> tuple[SignedConnection, Hello] | None:
        """The next host and its first word; None where none came in time."""
        while (left_s := end_s - time.monotonic()) > 0:
            self.listening.settimeout(left_s)
            try:
                connected, (address, *_) = self.listening.accept()
            except TimeoutError:
                return None
            try:
                return self._greeted(connected)
            except (Stranger, Lost) as error:
                connected.close()
                self._refuse(f"{address} ({error})")
        return None

    def _refuse(self, stranger: str) -> None:
        self.told(f"refused a connection from {stranger}")
        if stranger not in self.strangers:
            self.strangers.append(stranger)

    def _greeted(self, connected: socket.socket) -> tuple[SignedConnection, Hello]:
        line = SignedConnection(connected, proved(connected, self.meeting.key, leads=True))
        hello = next(line.come(PATIENCE_S), None)
        if not isinstance(hello, Hello):
            raise Stranger("it does not say which host it is")
        return line, hello


def coming(door: Door, command: Sequence[str]) -> Iterator[FollowingHost]:
    """The job's other hosts; an error names those that did not come in time."""
    door.told(_waiting(door.meeting))
    end_s, met = time.monotonic() + door.meeting.wait_s, list[FollowingHost]()
    while len(met) < door.meeting.hosts - 1:
        came = door.next(end_s)
        if came is None:
            raise TuneError(_missing(door.meeting, met, door.strangers))
        line, hello = came
        if why := _wrong(hello, command, met):
            line.send(Refused(why))
            line.close()
            raise TuneError(f"host {hello.host} cannot take part: {why}")
        met.append(FollowingHost(hello, line))
        yield met[-1]


def _wrong(hello: Hello, command: Sequence[str], met: Sequence[FollowingHost]) -> str:
    if hello.version != __version__:
        return f"it has Paceline {hello.version}, the leading host {__version__}; install the same"
    if hello.number is not None and hello.number in [0, *(host.hello.number for host in met)]:
        return f"number {hello.number} is taken; give each host a --node-rank of its own"
    mine = [word for word in command if not word.startswith("-")]
    if [w for w in hello.command if not w.startswith("-")][:1] != mine[:1]:
        return (
            f"it starts {hello.command[0]}, the leading host {command[0]}; start the same command"
        )
    return ""


def _missing(meeting: Meeting, met: Sequence[FollowingHost], strangers: Sequence[str]) -> str:
    came = ", ".join(["this one", *map(str, met)])
    numbers = {host.hello.number for host in met}
    absent = [str(n) for n in range(1, meeting.hosts) if n not in numbers]
    named = f"number {', '.join(absent)}" if (None not in numbers and met) or not met else "others"
    refused = f" Refused were {', '.join(strangers)}: give all the same {SECRET}." * bool(strangers)
    return (
        f"{1 + len(met)} of {meeting.hosts} hosts came within {meeting.wait_s:.0f} s ({came}); "
        f"host {named} did not.{refused} Start the same command on every host, at about one time"
    )
