"""Flows that share links max-min fairly: the definition, which the native core equals.

All rates rise together until a link is full; the flows on it have their rate then, and the others
rise on. A flow that crosses a link with weight w takes w times its rate there. Rates are set anew
whenever flows begin or end. After its last byte a flow still takes its tail, without the links.
"""

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import ceil

from paceline.cost.flows.table import FlowTable


@dataclass
class _State:
    left: float = 0.0
    rate: float = 0.0
    since_ns: int = 0
    end_ns: int | None = None
    sending: bool = False


class SharedLinks:
    """Flows under way."""

    def __init__(self, table: FlowTable) -> None:
        ptr = table.link_ptr.tolist()
        links, weights = table.link.tolist(), table.weight.tolist()
        self._crossed = [
            list(zip(links[ptr[i] : ptr[i + 1]], weights[ptr[i] : ptr[i + 1]]))
            for i in range(len(table))
        ]
        self._size, self._tail = table.size_bytes.tolist(), table.tail_ns.tolist()
        self._capacity = table.capacity.tolist()
        self._state = [_State() for _ in range(len(table))]
        self._due: list[tuple[int, int, bool]] = []

    def begin(self, flow: int, now_ns: int) -> None:
        state = self._state[flow] = _State(self._size[flow], since_ns=now_ns)
        if not self._crossed[flow] or state.left <= 0:
            state.end_ns = now_ns + self._tail[flow]
            heappush(self._due, (state.end_ns, flow, False))
        else:
            state.sending = True

    def settle(self, now_ns: int) -> None:
        """All that begins at this instant has begun: set the rates."""
        for flow, rate in self._shares().items():
            self._set_rate(flow, rate, now_ns)

    def next_end(self) -> int | None:
        while self._due and self._stale(*self._due[0]):
            heappop(self._due)
        return self._due[0][0] if self._due else None

    def take_ended(self, now_ns: int) -> list[int]:
        """Flows that end now, ascending."""
        ended = []
        while self.next_end() == now_ns:
            _, flow, drained = heappop(self._due)
            state = self._state[flow]
            if drained:
                state.sending = False
                state.end_ns = now_ns + self._tail[flow]
                if self._tail[flow] > 0:
                    heappush(self._due, (state.end_ns, flow, False))
                    continue
            state.end_ns = None
            ended.append(flow)
        return sorted(ended)

    def _shares(self) -> dict[int, float]:
        """The max-min fair rate of each flow that sends.

        The level of a link is what each open flow on it would get. Levels only rise while flows
        are settled, so the heap holds lower bounds, brought up to date as they come up.
        """
        flows = [flow for flow, state in enumerate(self._state) if state.sending]
        room: dict[int, float] = {}
        weights: dict[int, float] = {}
        members: dict[int, list[int]] = {}
        for flow in flows:
            for link, weight in self._crossed[flow]:
                room[link] = self._capacity[link]
                weights[link] = weights.get(link, 0.0) + weight
                members.setdefault(link, []).append(flow)
        still = {link: len(on) for link, on in members.items()}

        def level(link: int) -> float:
            return max(room[link], 0.0) / weights[link]

        found: dict[int, float] = {}
        levels = [(level(link), link) for link in members]
        heapify(levels)
        while len(found) < len(flows):
            bound, full = heappop(levels)
            if not still[full]:
                continue
            if (least := level(full)) > bound:
                heappush(levels, (least, full))
                continue
            for flow in members[full]:
                if flow in found:
                    continue
                found[flow] = least
                for link, weight in self._crossed[flow]:
                    room[link] -= least * weight
                    weights[link] -= weight
                    still[link] -= 1
        return found

    def _set_rate(self, flow: int, rate: float, now_ns: int) -> None:
        state = self._state[flow]
        if rate == state.rate and state.end_ns is not None:
            return
        sent = state.rate * (float(now_ns - state.since_ns) * 1e-9)
        state.left = max(0.0, state.left - sent)
        state.since_ns, state.rate = now_ns, rate
        state.end_ns = now_ns + ceil(state.left / rate * 1e9)
        heappush(self._due, (state.end_ns, flow, True))

    def _stale(self, at_ns: int, flow: int, drained: bool) -> bool:
        state = self._state[flow]
        return state.end_ns != at_ns or state.sending != drained
