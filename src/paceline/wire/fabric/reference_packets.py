"""What travels and what happens in the plain-Python simulator, and its only source of chance."""

from dataclasses import dataclass
from enum import Enum, auto

_MASK = 2**64 - 1


class Event(Enum):
    START = auto()  # of a flow
    ARRIVAL = auto()  # of a packet
    FREE = auto()  # a port can send again
    PACE = auto()  # a paced flow may send its next packet
    TIMER = auto()  # of a flow
    CHECK = auto()  # a paced flow's receiver looks what is missing


class State(Enum):
    """Of a packet, as its sender knows it."""

    UNSENT = auto()
    FLYING = auto()
    LOST = auto()
    DONE = auto()


class Kind(Enum):
    DATA = auto()
    ACK = auto()  # of a windowed flow
    PROBE = auto()  # a sender asks what is missing
    REPORT = auto()  # a paced receiver: seen so far, and of them marked
    REPAIR = auto()  # a paced receiver: packets are missing
    STOP = auto()  # a paced receiver has what it needs


@dataclass(slots=True)
class Packet:
    flow: int
    kind: Kind
    size: int
    seq: int = -1
    priority: int = 0
    important: bool = True
    markable: bool = False
    marked: bool = False
    remaining: int = 0  # packets that the flow still has to bring: pFabric's priority
    first: int = 0  # ACK: the first packet that has not arrived; REPORT: packets seen
    second: int = 0  # REPORT: of them marked
    ports: tuple[int, ...] = ()
    hop: int = 0


def mixed(seed: int, value: int) -> int:
    """64 well-mixed bits of two numbers (splitmix64's last step)."""
    z = (seed * 0x9E3779B97F4A7C15 + (value + 1) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return (z ^ (z >> 31)) >> 1


def of_chance(share: float) -> int:
    """A share as a number that `drawn` is below so often."""
    return int(share * 2**31)


def drawn(seed: int, value: int) -> int:
    """From 0 to 2**31 - 1."""
    return mixed(seed, value) >> 32
