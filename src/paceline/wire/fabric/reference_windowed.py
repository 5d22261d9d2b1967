"""Senders with a window: TCP Reno, DCTCP and pFabric, with an acknowledgement for every packet.

An acknowledgement names the packet that came, whether it was marked, and the first one that has
not come. Reno and DCTCP take a packet for lost once the third one after it was acknowledged;
pFabric only when its timer says so, and after five such times it asks with small probes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paceline.wire.fabric.fabric import CONTROL_BYTES, Flow
from paceline.wire.fabric.policy import Transport
from paceline.wire.fabric.reference_backlog import Backlog
from paceline.wire.fabric.reference_packets import Event, Kind, Packet, State

if TYPE_CHECKING:
    from paceline.wire.fabric.reference import Simulation

DUPLICATES = 3
PROBING_AFTER = 5  # timeouts in a row
LONGEST_BACKOFF = 6  # doublings of the timer
GAIN = 1 / 16  # DCTCP's weight of the newest window


class WindowedFlow:
    """Both ends of one flow."""

    def __init__(self, run: Simulation, number: int, flow: Flow) -> None:
        self.run, self.number, self.flow = run, number, flow
        self.packets = -(-flow.size_bytes // run.fabric.payload_bytes)
        self.backlog = Backlog(self.packets)
        self.flying = self.acked = self.first = self.checked = self.recover = 0
        self.highest = -1
        self.window, self.threshold = float(run.policy.window_packets), float("inf")
        self.deadline = self.timeouts = 0
        self.probing = self.finished = False
        self.alpha, self.window_acks, self.window_marks = 1.0, 0, 0
        self.window_end = self.cut_end = 0
        self.got = [False] * self.packets  # the receiver's
        self.expected = self.count = self.missing = self.sent = 0
        self.end_ns = -1

    def start(self) -> None:
        self._fill()
        self._rewind()
        self._set_timer()

    # ---- the sender

    def arrived(self, packet: Packet) -> None:
        if packet.kind is Kind.ACK:
            self._acknowledged(packet)
        else:
            self._receive(packet)

    def _fill(self) -> None:
        while self.flying < int(self.window) and self.backlog:
            self._send(self.backlog.take())

    def _send(self, seq: int) -> None:
        self.flying += 1
        self.sent += 1
        packet = Packet(self.number, Kind.DATA, self.run.data_bytes(self.flow, seq), seq)
        packet.markable = self.run.policy.transport is Transport.DCTCP
        packet.remaining = self.packets - self.acked
        self.run.send(packet, self.flow.src, self.flow.dst)

    def _acknowledged(self, packet: Packet) -> None:
        if self.finished:
            return
        newly = 0
        while self.first < packet.first:
            newly += self._settle(self.first)
            self.first += 1
        if packet.seq >= 0:
            newly += self._settle(packet.seq)
            self.highest = max(self.highest, packet.seq)
        if newly or self.probing:
            self._rewind()
        self.probing = False
        if self.acked == self.packets:
            self.finished = True
            return
        self._react(newly, packet)
        self._fill()

    def _settle(self, seq: int) -> int:
        """Take a packet for delivered; 1 where that is news."""
        was = self.backlog.settle(seq)
        if was is State.DONE:
            return 0
        self.flying -= was is State.FLYING
        self.acked += 1
        return 1

    def _react(self, newly: int, packet: Packet) -> None:
        if self.run.policy.transport is Transport.DCTCP:
            self._follow_marks(newly, packet)
        if not packet.marked:
            slow_start = self.window < self.threshold
            self.window += newly if slow_start else newly / self.window
        if self.run.policy.transport is Transport.PFABRIC:
            self.window = min(self.window, float(self.run.policy.window_packets))
        else:
            self._find_losses()

    def _follow_marks(self, newly: int, packet: Packet) -> None:
        self.window_acks += newly
        self.window_marks += newly if packet.marked else 0
        if packet.marked and packet.seq >= self.cut_end:
            self.window = max(1.0, self.window * (1 - self.alpha / 2))
            self.threshold = self.window
            self.cut_end = self.backlog.next
        if packet.seq >= self.window_end and self.window_acks:
            share = self.window_marks / self.window_acks
            self.alpha = self.alpha * (1 - GAIN) + GAIN * share
            self.window_acks = self.window_marks = 0
            self.window_end = self.backlog.next

    def _find_losses(self) -> None:
        while self.checked + DUPLICATES <= self.highest:
            seq = self.checked
            self.checked += 1
            if self.backlog.state[seq] is not State.FLYING:
                continue
            self._lose(seq)
            if seq >= self.recover:
                self.threshold = self.window = max(self.window / 2, 2.0)
                self.recover = self.backlog.next

    def _lose(self, seq: int) -> None:
        self.backlog.lose(seq)
        self.flying -= 1

    # ---- its timer

    def timer(self) -> None:
        if self.finished:
            return
        if self.run.now >= self.deadline:
            self._time_out()
        self._set_timer()

    def _time_out(self) -> None:
        for seq in range(self.first, self.backlog.next):
            if self.backlog.state[seq] is State.FLYING:
                self._lose(seq)
        self.threshold, self.window = max(self.window / 2, 2.0), 1.0
        self.recover = self.backlog.next
        self.timeouts += 1
        self.probing = (
            self.run.policy.transport is Transport.PFABRIC and self.timeouts >= PROBING_AFTER
        )
        if self.probing:
            probe = Packet(self.number, Kind.PROBE, CONTROL_BYTES)
            probe.remaining = self.packets - self.acked
            self.run.send(probe, self.flow.src, self.flow.dst)
        else:
            self._fill()
        self.deadline = self.run.now + self._patience()

    def _patience(self) -> int:
        doubles = self.run.policy.transport is not Transport.PFABRIC
        return self.run.policy.rto_ns << (min(self.timeouts, LONGEST_BACKOFF) * doubles)

    def _rewind(self) -> None:
        self.timeouts = 0
        self.deadline = self.run.now + self.run.policy.rto_ns

    def _set_timer(self) -> None:
        self.run.at(self.deadline, Event.TIMER, self)

    # ---- the receiver

    def _receive(self, packet: Packet) -> None:
        if packet.kind is Kind.DATA and not self.got[packet.seq]:
            self.got[packet.seq] = True
            self.count += 1
            while self.expected < self.packets and self.got[self.expected]:
                self.expected += 1
            if self.count == self.packets:
                self.end_ns = self.run.now
                self.run.open -= 1
        ack = Packet(self.number, Kind.ACK, CONTROL_BYTES, packet.seq)
        ack.first, ack.marked = self.expected, packet.marked
        self.run.send(ack, self.flow.dst, self.flow.src)
