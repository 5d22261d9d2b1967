"""Bounded loss: packets in any order, at a pace that marks and losses slow down; DLCP's and MLT's.

The sender sends every packet once, then asks (a probe) what is missing. The receiver waits one
round trip for stragglers, and says stop where the loss budget covers what is missing, else which
packets to repair. It never stops a sender early that still sends for the first time, so that the
budget is spent on loss alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paceline.wire.fabric.fabric import CONTROL_BYTES, Flow
from paceline.wire.fabric.reference_backlog import Backlog
from paceline.wire.fabric.reference_packets import Event, Kind, Packet, State, drawn, of_chance

if TYPE_CHECKING:
    from paceline.wire.fabric.reference import Simulation

GAIN = 1 / 16  # weight of the newest report
LOWEST_RATE = 1 / 1024
SILENCE, UNHEARD = 2, 16
"""After so many round trips without a report, in which so many packets went, all may be dropped."""
REORDERED = 3  # so many missing in a row were dropped, not overtaken


class PacedFlow:
    """Both ends of one flow."""

    def __init__(self, run: Simulation, number: int, flow: Flow) -> None:
        self.run, self.number, self.flow = run, number, flow
        self.packets = -(-flow.size_bytes // run.fabric.payload_bytes)
        self.need = self.packets - int(flow.loss_budget * self.packets)
        self.important = of_chance(flow.important)
        self.backlog, self.deadline = Backlog(self.packets), 0
        self.rate, self.alpha = run.policy.first_rate, 1.0
        self.cut_until = self.rise_at = self.unheard = 0
        self.heard = flow.start_ns
        self.pacing, self.stopped, self.doubling = True, False, True
        self.got = [False] * self.packets  # the receiver's
        self.count = self.seen = self.seen_marked = self.missing = self.sent = 0
        self.highest = -1
        self.asked = self.checking = False
        self.end_ns = -1

    def start(self) -> None:
        self.pace()

    def arrived(self, packet: Packet) -> None:
        _ARRIVED[packet.kind](self, packet)

    # ---- the sender

    def pace(self) -> None:
        """Send the next packet, once the NIC has room for it."""
        if self.stopped:
            self.run.wake(self.flow.src)  # in its place
            return
        if not self.backlog:
            self.pacing = False
            self._probe()
            return
        if self.run.waits_for_nic(self):
            return
        silent = self.run.now >= self.heard + SILENCE * self.run.fabric.rtt_ns
        if self.unheard >= UNHEARD and silent:
            self._slow_down()
        self.unheard += 1
        size = self._send(self.backlog.take())
        gap_ns = int(self.run.fabric.sending_ns(size, self.flow.src) / self.rate)
        self.run.at(self.run.now + max(gap_ns, 1), Event.PACE, self)

    def _send(self, seq: int) -> int:
        self.sent += 1
        packet = Packet(self.number, Kind.DATA, self.run.data_bytes(self.flow, seq), seq)
        packet.priority = self.flow.priority
        place = self.number << 32 | seq
        packet.important = drawn(self.run.policy.seed, place) < self.important
        packet.markable = packet.important
        self.run.send(packet, self.flow.src, self.flow.dst)
        return packet.size

    def _probe(self) -> None:
        packet = Packet(self.number, Kind.PROBE, CONTROL_BYTES, priority=self.flow.priority)
        self.run.send(packet, self.flow.src, self.flow.dst)
        self.deadline = self.run.now + self.run.policy.rto_ns
        self.run.at(self.deadline, Event.TIMER, self)

    def timer(self) -> None:
        """The probe, or its answer, was lost."""
        if not (self.stopped or self.pacing) and self.run.now >= self.deadline:
            self._probe()

    def _slow_down(self) -> None:
        self.heard, self.unheard, self.doubling = self.run.now, 0, False
        self.rate = max(LOWEST_RATE, self.rate / 2)

    def _reported(self, packet: Packet) -> None:
        now, rtt_ns = self.run.now, self.run.fabric.rtt_ns
        self.alpha = self.alpha * (1 - GAIN) + GAIN * (packet.second / packet.first)
        self.doubling = self.doubling and not packet.second
        self.heard, self.unheard = now, 0
        if packet.second and now >= self.cut_until:
            self.rate = max(LOWEST_RATE, self.rate * (1 - self.alpha / 2))
            self.cut_until = now + rtt_ns
        elif not packet.second and now >= self.rise_at:
            risen = 2 * self.rate if self.doubling else self.rate + self.run.policy.increase
            self.rate = min(1.0, risen)
            self.rise_at = now + rtt_ns

    def _repair(self, _: Packet) -> None:
        if not (self.pacing or self.stopped):
            self.pacing = True
            self.pace()

    def _stop(self, _: Packet) -> None:
        self.stopped = True

    # ---- the receiver

    def _receive(self, packet: Packet) -> None:
        if self.end_ns >= 0:
            return
        if not self.got[packet.seq]:
            self.got[packet.seq] = True
            self.count += 1
        skipped = max(0, packet.seq - self.highest - 1)
        self.highest = max(self.highest, packet.seq)
        lost = skipped if skipped >= REORDERED else 0
        self.seen += 1 + lost
        self.seen_marked += packet.marked + lost
        if self.count == self.packets or (self.asked and self.count >= self.need):
            self._finish()
        elif self.seen >= self.run.policy.feedback_packets:
            self._answer(Kind.REPORT, self.seen, self.seen_marked)
            self.seen = self.seen_marked = 0

    def _probed(self, _: Packet) -> None:
        if self.end_ns >= 0:
            self._answer(Kind.STOP)
        elif not self.checking:
            self.asked = self.checking = True
            self.run.at(self.run.now + self.run.fabric.rtt_ns, Event.CHECK, self)

    def check(self) -> None:
        """Stragglers had their time: what has not come by now is lost."""
        self.checking = False
        if self.end_ns >= 0:
            return
        if self.count >= self.need:
            self._finish()
            return
        for seq in range(self.packets):
            if not self.got[seq] and self.backlog.state[seq] is State.FLYING:
                self.backlog.lose(seq)
        self._answer(Kind.REPAIR)

    def _finish(self) -> None:
        self.end_ns, self.missing = self.run.now, self.packets - self.count
        self.run.open -= 1
        self._answer(Kind.STOP)

    def _answer(self, kind: Kind, first: int = 0, second: int = 0) -> None:
        answer = Packet(self.number, kind, CONTROL_BYTES, first=first, second=second)
        self.run.send(answer, self.flow.dst, self.flow.src)


_ARRIVED = {
    Kind.DATA: PacedFlow._receive,
    Kind.PROBE: PacedFlow._probed,
    Kind.REPORT: PacedFlow._reported,
    Kind.REPAIR: PacedFlow._repair,
    Kind.STOP: PacedFlow._stop,
}
