"""`ShapedPace`: the pace of messages on shaped links, in plain Python.

A shaped link is a token bucket: after a rest it passes `burst_bytes` at once, from then on its
rate. Its sender keeps up to `window_bytes` of each message in its queue, behind which others wait;
then messages under way share links max-min fairly. Each moves no faster than one core at either end
can, and together they take no more than most of the cores. A message without bytes is a word of the
transport: it waits in that queue, and nowhere else. Of two messages the other way round on one
connection (`ShapedMessages.other`) the one that is asked for first goes first, all of it.

The native engine equals this file bit for bit (native/replay_shaped.cpp): messages are looked at in
the order in which they were asked for, those of one instant by number, and sums run in that order.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from paceline.cluster.tcp import FRAME_BYTES
from paceline.graph import NONE
from paceline.replay.hosts import MOST_LOAD, SharedHosts
from paceline.replay.messages import ShapedMessages

NOTHING_BYTES = 1e-3
"""What rounding alone has left of a message."""

NEVER = 2**63 - 1
"""Later than every instant of a timeline."""


def max_min(paths: Sequence[Sequence[int]], capacity: Sequence[float], most: float) -> list[float]:
    """Rates of flows that share links max-min fairly, none above `most`."""
    rates = [0.0] * len(paths)
    left = list(capacity)
    growing = set(range(len(paths)))
    while growing:
        users = [0] * len(left)
        for flow in growing:
            for link in paths[flow]:
                users[link] += 1
        more = min(
            [most - max(rates[f] for f in growing)]
            + [left[link] / n for link, n in enumerate(users) if n]
        )
        for flow in growing:
            rates[flow] += more
            for link in paths[flow]:
                left[link] -= more
        full = {
            link
            for link, n in enumerate(users)
            if n and math.isfinite(capacity[link]) and left[link] <= 1e-12 * capacity[link]
        }
        growing = {
            f for f in growing if rates[f] < most * (1 - 1e-12) and not full.intersection(paths[f])
        }
    return rates


@dataclass
class _Message:
    """Bytes under way; `begins` is when the first of them moves."""

    number: int
    other: int  # the one the other way
    path: tuple[int, ...]
    left: float
    ends: tuple[int, int]  # machines of its sender and its receiver
    members: list[int] = field(default_factory=list)
    begins: int = 0
    rate: float = 0.0  # bytes a ns
    behind: float | None = None  # bytes before it in its sender's queue, once it is there

    def moves(self) -> bool:
        return self.behind is not None and self.behind <= NOTHING_BYTES

    def ended(self) -> bool:
        return self.moves() and self.left <= NOTHING_BYTES


class ShapedPace:
    """The `HostPace` of messages; without `hosts` they take no processor time from anyone."""

    def __init__(self, messages: ShapedMessages, hosts: SharedHosts | None = None) -> None:
        self._columns, self._shaping = messages, messages.shaping
        self._of_op = messages.of_op.tolist()
        self._capacity = messages.capacity.tolist()
        self._tokens = list(self._shaping.burst_bytes)
        self._cores = hosts.cores if hosts else ()
        self._machine = hosts.machine if hosts else ()
        self._threads: Sequence[int] = ()
        self._loads = [0.0] * len(self._cores)
        self._asked: dict[int, _Message] = {}  # at this instant
        self._messages: list[_Message] = []  # as they were asked for
        self._since, self._next, self._changed = 0, NEVER, False

    def begin(self, op: int, now_ns: int) -> None:
        number, self._changed = self._of_op[op], True
        if number not in self._asked:
            self._asked[number] = self._message(number)
        self._asked[number].members.append(op)

    def see(self, threads: Sequence[int]) -> None:
        self._threads = threads

    def loads(self) -> Sequence[float]:
        return self._loads

    def settle(self, now_ns: int) -> None:
        if not self._changed:
            return
        self._changed = False
        self._advance(now_ns)
        self._ask(now_ns)
        before = set[int]()
        for message in self._messages:
            if message.begins <= now_ns and message.other not in before:
                self._queue(message)
            before.add(message.number)
        self._set_rates()
        self._next = self._next_end()

    def next_end(self) -> int | None:
        return None if self._next == NEVER else self._next

    def take_ended(self, now_ns: int) -> list[int]:
        self._advance(now_ns)
        self._changed = True
        ended = [op for message in self._messages if message.ended() for op in message.members]
        self._messages = [message for message in self._messages if not message.ended()]
        return sorted(ended)

    def _message(self, number: int) -> _Message:
        columns = self._columns
        first, last = columns.link_ptr[number : number + 2].tolist()
        ranks = int(columns.source[number]), int(columns.target[number])
        source, target = (self._machine[rank] if self._cores else NONE for rank in ranks)
        path = tuple(columns.link[first:last].tolist())
        size_bytes, other = float(columns.size_bytes[number]), int(columns.other[number])
        return _Message(number, other, path, size_bytes, (source, target))

    def _ask(self, now_ns: int) -> None:
        """Those asked for at this instant come to the others."""
        for _, message in sorted(self._asked.items()):
            late = self._shaping.late_ns if self._busy(message) else 0
            delay_ns = self._shaping.message_ns + late if message.left else 0
            message.begins = now_ns + delay_ns
            self._messages.append(message)
        self._asked.clear()

    def _busy(self, message: _Message) -> bool:
        """Whether threads take all cores at one of its ends."""
        return bool(self._cores) and any(
            self._threads[machine] >= round(self._cores[machine]) for machine in message.ends
        )

    def _queue(self, message: _Message) -> None:
        """A message whose first byte is due joins the queue of its sender's link."""
        if not message.path:
            message.behind = 0.0
            return
        others = [m for m in self._messages if m.path and m.path[0] == message.path[0]]
        if message.behind is None:
            behind = 0.0
            for other in others:
                if other.behind is not None:
                    behind += min(self._shaping.window_bytes, max(0.0, other.left))
            message.behind = behind
        elif message.behind <= min(m.behind for m in others if m.behind is not None):
            message.behind = 0.0  # whoever was before it has gone; what is left is rounding

    def _set_rates(self) -> None:
        """By links, with buckets that are not empty as wide as it takes; then by cores."""
        moving = [m for m in self._messages if m.moves() and m.left > NOTHING_BYTES]
        free = [
            rate if tokens < FRAME_BYTES else math.inf  # less than a frame is nothing
            for rate, tokens in zip(self._capacity, self._tokens)
        ]
        rates = max_min([message.path for message in moving], free, self._shaping.most)
        for message, rate in zip(moving, rates):
            message.rate = rate
        if self._cores:
            self._share_cores(moving)

    def _share_cores(self, moving: Sequence[_Message]) -> None:
        """Messages that want more than most of a machine's cores are slowed to that."""
        loads = self._wanted(moving)
        shares = [
            cores * MOST_LOAD / load if load > cores * MOST_LOAD else 1.0
            for cores, load in zip(self._cores, loads)
        ]
        for message in moving:
            message.rate *= min(shares[machine] for machine in message.ends)
        self._loads = self._wanted(moving)

    def _wanted(self, moving: Sequence[_Message]) -> list[float]:
        """Cores that messages take at their rates, by machine: half the cost at either end."""
        loads, half = [0.0] * len(self._cores), self._shaping.cpu_ns_per_byte / 2
        for message in moving:
            for machine in message.ends:
                loads[machine] += half * message.rate
        return loads

    def _next_end(self) -> int:
        """When something comes, goes, or changes the rates."""
        used, nexts = self._used(), [NEVER]
        for message in self._messages:
            if message.begins > self._since:
                nexts.append(message.begins)
            elif message.ended():
                nexts.append(self._since)
            elif message.rate:
                nexts.append(self._since + math.ceil(message.left / message.rate))
            elif message.behind and (rate := used[message.path[0]]):
                nexts.append(self._since + math.ceil(message.behind / rate))
        return min(nexts + self._emptied(used))

    def _emptied(self, used: Sequence[float]) -> list[int]:
        """When buckets run dry."""
        return [
            self._since + max(1, math.ceil((tokens - FRAME_BYTES / 2) / (use - rate)))
            for tokens, use, rate in zip(self._tokens, used, self._capacity)
            if tokens >= FRAME_BYTES and use > rate * (1 + 1e-9)
        ]

    def _advance(self, now_ns: int) -> None:
        """Bytes that have moved since the rates were set, and what the buckets hold."""
        passed, used = now_ns - self._since, self._used()
        self._since = now_ns
        for message in self._messages:
            message.left -= message.rate * passed
            if message.behind:
                message.behind = max(0.0, message.behind - used[message.path[0]] * passed)
        for link, rate in enumerate(self._capacity):
            held = self._tokens[link] + (rate - used[link]) * passed
            self._tokens[link] = min(self._shaping.burst_bytes[link], max(0.0, held))

    def _used(self) -> list[float]:
        used = [0.0] * len(self._capacity)
        for message in self._messages:
            for link in message.path:
                used[link] += message.rate
        return used
