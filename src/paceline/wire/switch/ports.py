"""The queues of the user-space switch: one per port, kept by a `Rule`, sent at the port's rate."""

from collections import Counter, deque
from dataclasses import dataclass

from paceline.wire.switch.codes import CONGESTED, PLAIN_PRIORITY, PRIORITIES, code_of, is_markable
from paceline.wire.switch.rule import Rule, Verdict

FRAME_BYTES = 42  # Ethernet, IP and UDP, which a link's rate pays for too
BURST_NS = 1_000_000
"""After a rest a port may catch up with so much time: it wakes late where cores are shared."""


@dataclass(frozen=True, slots=True)
class Datagram:
    """What waits: its bytes, its TOS byte, and the socket that it leaves by."""

    payload: bytes
    tos: int
    source: int

    @property
    def size_bytes(self) -> int:
        return len(self.payload) + FRAME_BYTES


class SwitchQueue:
    """One port's: strict priorities by code."""

    def __init__(self, rule: Rule) -> None:
        self.rule, self.backlog_bytes = rule, 0
        self.verdicts: Counter[tuple[int, Verdict]] = Counter()  # by DSCP
        self._waiting = [deque[Datagram]() for _ in range(PRIORITIES)]
        self._bytes = [0] * PRIORITIES
        self._free_ns = 0

    def put(self, datagram: Datagram) -> Verdict:
        code = code_of(datagram.tos)
        priority = PLAIN_PRIORITY if code is None else code.priority
        after = sum(self._bytes[: priority + 1]) + datagram.size_bytes
        verdict = self.rule.verdict(after, code, markable=is_markable(datagram.tos))
        self.verdicts[datagram.tos >> 2, verdict] += 1
        if verdict is Verdict.DROP:
            return verdict
        if verdict is Verdict.MARK:
            datagram = Datagram(datagram.payload, datagram.tos | CONGESTED, datagram.source)
        self._waiting[priority].append(datagram)
        self._bytes[priority] += datagram.size_bytes
        self.backlog_bytes += datagram.size_bytes
        return verdict

    def take(self, now_ns: int) -> Datagram | None:
        """The next datagram, where the port is free to send it."""
        if not self.backlog_bytes or now_ns < self._free_ns:
            return None
        priority = next(p for p in range(PRIORITIES) if self._waiting[p])
        datagram = self._waiting[priority].popleft()
        size = datagram.size_bytes
        self._bytes[priority] -= size
        self.backlog_bytes -= size
        sending_ns = size * 8_000_000_000 // self.rule.bits_per_s
        self._free_ns = max(self._free_ns, now_ns - BURST_NS) + sending_ns
        return datagram

    def due_ns(self) -> int | None:
        """When it can send next; None where nothing waits."""
        return self._free_ns if self.backlog_bytes else None
