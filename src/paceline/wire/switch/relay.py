"""The switch in user space, for machines without root: a relay of UDP datagrams.

    with Relay(peers, rule) as relay: ...
    python -m paceline.wire.switch.relay < relay.json

It has one socket per peer. What peer s sends to the socket of peer d waits in the queue of d's port
and reaches d from the socket of s, so that an answer finds its way back. A further socket
aggregates (see `aggregation`); its answers wait in the same queues. It forwards 100,000
datagrams per second of processor time, but wakes late where cores are shared. TCP cannot pass.
"""

import json
import select
import socket
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.wire.errors import WireError
from paceline.wire.switch.aggregation import Aggregator
from paceline.wire.switch.codes import Code, tos
from paceline.wire.switch.ports import Datagram, SwitchQueue
from paceline.wire.switch.rule import Rule, Verdict

_LARGEST = 65_535
_BATCH = 32  # datagrams taken from one socket before others have their turn
_BUFFER_BYTES = 4 << 20
_FORCE_SEND, _FORCE_RECEIVE = 32, 33  # Linux: SO_SNDBUFFORCE, SO_RCVBUFFORCE
_ANSWER = tos(Code(1, 7), markable=False)
Address = tuple[str, int]


@dataclass(frozen=True)
class SwitchJob:
    """For whom the switch aggregates: worker i is peer i."""

    number: int
    workers: int
    key: bytes


class Relay:
    """Stands from construction to `close`; `step` and `run` forward."""

    def __init__(self, peers: Sequence[Address], rule: Rule, job: SwitchJob | None = None) -> None:
        if len(set(peers)) < len(peers) or not peers:
            raise WireError(f"peers {list(peers)}: give each its own address, and at least one")
        if job is not None and job.workers > len(peers):
            raise WireError(f"{job.workers} workers aggregate, but there are {len(peers)} peers")
        self.queues = tuple(SwitchQueue(rule) for _ in peers)
        self.strangers = self.full_sockets = 0
        self._peers, self._row = tuple(peers), {peer: row for row, peer in enumerate(peers)}
        self.aggregator = Aggregator(job.number, job.workers, job.key) if job else None
        self._sockets = [_bound() for _ in range(len(peers) + (job is not None))]
        self._port_of = {made.fileno(): row for row, made in enumerate(self._sockets)}
        self._tos = dict.fromkeys(range(len(self._sockets)), -1)

    def __enter__(self) -> "Relay":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for made in self._sockets:
            made.close()

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Where to send what is for each peer; the last one aggregates, if there is a job."""
        return tuple(made.getsockname() for made in self._sockets)

    @property
    def verdicts(self) -> Counter[tuple[int, Verdict]]:
        """Of all ports, by DSCP."""
        return sum((queue.verdicts for queue in self.queues), Counter())

    def run(self, until_ns: int) -> None:
        """Forward until `time.monotonic_ns()` says so."""
        while (left := until_ns - time.monotonic_ns()) > 0:
            self.step(left / 1e9)

    def step(self, patience_s: float) -> None:
        """Wait for something to do, at most so long, and do it."""
        dues = [due for queue in self.queues if (due := queue.due_ns()) is not None]
        if dues:
            patience_s = min(patience_s, max(0, min(dues) - time.monotonic_ns()) / 1e9)
        ready, _, _ = select.select(self._sockets, (), (), patience_s)
        for made in ready:
            self._receive(made)
        for port, queue in enumerate(self.queues):
            while (datagram := queue.take(time.monotonic_ns())) is not None:
                self._send(port, datagram)

    def _receive(self, made: socket.socket) -> None:
        port = self._port_of[made.fileno()]
        for _ in range(_BATCH):
            try:
                payload, words, _, sender = made.recvmsg(_LARGEST, 64)
            except BlockingIOError:
                return
            source = self._row.get(sender)
            if source is None:
                self.strangers += 1
            elif port < len(self.queues):
                self.queues[port].put(Datagram(payload, _tos_of(words), source))
            else:
                self._aggregate(payload, port)

    def _aggregate(self, payload: bytes, port: int) -> None:
        assert self.aggregator is not None
        for worker, answer in self.aggregator.receive(payload):
            self.queues[worker].put(Datagram(answer, _ANSWER, port))

    def _send(self, port: int, datagram: Datagram) -> None:
        made = self._sockets[datagram.source]
        if self._tos[datagram.source] != datagram.tos:
            made.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, datagram.tos)
            self._tos[datagram.source] = datagram.tos
        try:
            made.sendto(datagram.payload, self._peers[port])
        except BlockingIOError:
            self.full_sockets += 1  # lost, as in any switch whose cable is gone for a while
        except ConnectionRefusedError:
            pass  # the peer is gone; what it was sent earlier came back as this


def _bound() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setblocking(False)
    made.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    enlarge(made)
    made.bind(("127.0.0.1", 0))
    return made


def enlarge(made: socket.socket) -> None:
    """Buffers for bursts of all peers at once: root may have them, others as much as is allowed."""
    for forced, asked in ((_FORCE_RECEIVE, socket.SO_RCVBUF), (_FORCE_SEND, socket.SO_SNDBUF)):
        try:
            made.setsockopt(socket.SOL_SOCKET, forced, _BUFFER_BYTES)
        except PermissionError:
            made.setsockopt(socket.SOL_SOCKET, asked, _BUFFER_BYTES)


def _tos_of(words: list[tuple[int, int, bytes]]) -> int:
    return next((w[2][0] for w in words if w[:2] == (socket.IPPROTO_IP, socket.IP_TOS)), 0)


def _main() -> None:
    """`relay.json`: {peers: [[host, port], ...], rule, job, seconds}; prints its addresses."""
    given = json.loads(sys.stdin.read())
    given["rule"]["drop_bytes"] = tuple(given["rule"]["drop_bytes"])
    job = given.get("job")
    made = SwitchJob(job["number"], job["workers"], bytes.fromhex(job["key"])) if job else None
    peers = [(host, port) for host, port in given["peers"]]
    with Relay(peers, Rule(**given["rule"]), made) as relay:
        sys.stdout.write(json.dumps(relay.addresses) + "\n")
        sys.stdout.flush()
        relay.run(time.monotonic_ns() + int(given["seconds"] * 1e9))


if __name__ == "__main__":
    _main()
