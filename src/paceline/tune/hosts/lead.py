"""`gathered`: the hosts of a job, met; and `Followers.place`, which makes a run on all of them."""

import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from paceline.launch import Process
from paceline.trial import Ending, Place, Ran, Watching
from paceline.tune.errors import TuneError
from paceline.tune.hosts.door import Door, FollowingHost, coming
from paceline.tune.hosts.follow import ran_of
from paceline.tune.hosts.meeting import Meeting
from paceline.tune.hosts.wire import (
    OURS,
    Begin,
    Ended,
    Lost,
    Said,
    StopJob,
    Verdict,
    Wrote,
    within,
)

GRACE_S = 15.0  # for this host's part to fail by itself once another's has
LAST_S = 120.0  # for a host's last files


@contextmanager
def gathered(
    meeting: Meeting, command: Sequence[str], told: Callable[[str], None]
) -> Iterator["Followers"]:
    """All other hosts, within the meeting's time; an error names those that did not come, and who
    came and is none of them."""
    family = socket.AF_INET6 if ":" in meeting.address else socket.AF_INET
    with ExitStack() as stack:
        door = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            door.bind(("", meeting.port))
        except OSError as error:
            raise TuneError(
                f"hosts cannot meet at port {meeting.port}: {error}. Name another place with "
                "--meet HOST:PORT, on every host"
            ) from error
        door.listen(meeting.hosts)
        hosts = Followers([])
        stack.callback(hosts.close)
        for host in coming(Door(door, meeting, told), command):
            hosts.hosts.append(host)
        yield hosts


@dataclass(eq=False)
class Followers:
    """The hosts that follow, of one loop."""

    hosts: list[FollowingHost]
    root: Path = field(default_factory=Path)

    def place(self, own: Place, root: Path) -> Place:
        """Runs a job on all hosts: here as `own` does. What ranks of others write comes into this
        host's folder as they write it."""
        self.root = root.resolve()

        def run(process: Process, watching: Watching) -> Ran:
            self._begin(process)
            ran = own(
                process,
                replace(
                    watching,
                    enough=lambda: self._goes_on(watching),
                    hangs=lambda: self._failed() or watching.hangs(),
                ),
            )
            self._end()
            return self._together(ran)

        return run

    def tell(self, decision: str, plan: Path | None) -> None:
        """The verdict, and the plan's file where one is kept."""
        data = plan.read_bytes() if plan is not None else None
        for host in self.hosts:
            self._send(host, Verdict(decision, data))

    def close(self) -> None:
        for host in self.hosts:
            host.line.close()

    def _begin(self, process: Process) -> None:
        given = process.environment or {}
        told = {k: v for k, v in given.items() if k.startswith(OURS) and os.environ.get(k) != v}
        assert process.log is not None, "the loop keeps what jobs print"
        folder = process.log.parent.resolve().relative_to(self.root).as_posix()
        for host in self.hosts:
            host.ended = None
            self._send(host, Begin(folder, str(self.root), told))
        self._require_all()

    def _goes_on(self, watching: Watching) -> bool:
        self._listen()
        return watching.enough()

    def _failed(self) -> bool:
        """A host was lost, or its part failed and this host's has not in the time since."""
        now = time.monotonic()
        return any(
            host.lost or (host.ended and host.ended.exit_code and now - host.at_s > GRACE_S)
            for host in self.hosts
        )

    def _end(self) -> None:
        """End all parts, and wait for what they wrote."""
        for host in self.hosts:
            if host.ended is None:
                self._send(host, StopJob())
        end = time.monotonic() + LAST_S
        while any(host.ended is None and not host.lost for host in self.hosts):
            self._listen(0.1)
            if time.monotonic() > end:
                late = next(host for host in self.hosts if host.ended is None)
                late.lost = f"it did not end its part of the run within {LAST_S:.0f} s"
        self._require_all()

    def _together(self, own: Ran) -> Ran:
        """How the run ended on all hosts: the first that failed tells why."""
        for host in self.hosts:
            if host.ended is not None and host.ended.exit_code and own.ending is not Ending.ENOUGH:
                return replace(host.ended, said=f"{host}: {host.ended.said}")
        return own

    def _listen(self, wait_s: float = 0.0) -> None:
        for host in self.hosts:
            if host.lost:
                continue
            try:
                for message in host.line.come(wait_s):
                    self._take(host, message)
            except Lost as error:
                host.lost, host.at_s = str(error), time.monotonic()

    def _take(self, host: FollowingHost, message: Said) -> None:
        if isinstance(message, Ended):
            host.ended, host.at_s = ran_of(message), time.monotonic()
        elif isinstance(message, Wrote):
            file = self.root / within(message.file)
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("r+b" if message.offset else "wb") as target:
                target.seek(message.offset)
                target.write(message.data)

    def _send(self, host: FollowingHost, message: Said) -> None:
        try:
            host.line.send(message)
        except Lost as error:
            host.lost, host.at_s = str(error), time.monotonic()

    def _require_all(self) -> None:
        for host in self.hosts:
            if host.lost:
                raise TuneError(
                    f"{host} was lost: {host.lost}. The job was ended on the others; what was "
                    "found so far is kept. Start the same command on every host again"
                )
