"""`Backlog`: which packet of a flow goes next. Senders of both kinds have one."""

from paceline.wire.fabric.reference_packets import State


class Backlog:
    """Of a flow of so many packets: those that were lost go first, then those never sent."""

    def __init__(self, packets: int) -> None:
        self.state = [State.UNSENT] * packets
        self.next = 0  # the first that was never sent
        self.lost = 0  # how many are to be sent again
        self._resend = 0  # none before it was lost

    def __bool__(self) -> bool:
        return self.lost > 0 or self.next < len(self.state)

    def take(self) -> int:
        """The next packet, which is under way from now on."""
        seq = self._choose()
        self.state[seq] = State.FLYING
        return seq

    def lose(self, seq: int) -> None:
        self.state[seq] = State.LOST
        self.lost += 1
        self._resend = min(self._resend, seq)

    def settle(self, seq: int) -> State:
        """It is delivered; what was thought of it before."""
        was, self.state[seq] = self.state[seq], State.DONE
        self.lost -= was is State.LOST
        return was

    def _choose(self) -> int:
        if not self.lost:
            self.next += 1
            return self.next - 1
        while self.state[self._resend] is not State.LOST:
            self._resend += 1
        self.lost -= 1
        return self._resend
