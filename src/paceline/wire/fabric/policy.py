"""`Policy`: how senders send, how packets find their way, and what full queues do."""

from dataclasses import dataclass
from enum import Enum

from paceline.wire.errors import WireError


class Transport(Enum):
    """Who decides when a packet goes. `reference_*` say exactly how."""

    RENO = 0  # TCP: loss halves the window
    DCTCP = 1  # marks shrink the window by their share (Alizadeh et al., SIGCOMM 2010)
    PFABRIC = 2  # smallest remaining flow first, minimal rate control (SIGCOMM 2013)
    BOUNDED = 3  # order-free, paced, may do without a share of its packets (DLCP, MLT)


class Routing(Enum):
    """Which spine a packet takes: its flow's own for ever, or each packet the next."""

    ECMP = 0
    SPRAY = 1


@dataclass(frozen=True)
class Policy:
    """One transport on one kind of switch. The constructors below have their papers' settings."""

    transport: Transport
    routing: Routing = Routing.ECMP
    mark_bytes: int = 0  # a queue above it marks packets (what can be marked); 0: never
    drop_bytes: int = 0  # a queue above it drops unimportant packets; 0: only a full buffer drops
    window_packets: int = 10  # first window; pFabric's largest too
    rto_ns: int = 10_000_000  # shortest time after which a packet is taken for lost
    first_rate: float = 0.125  # of paced senders, as a share of the line's
    increase: float = (
        0.02  # of a paced sender's rate per round trip without marks; before the first
    )
    # mark it doubles
    feedback_packets: int = 1  # a paced receiver answers once per so many
    seed: int = 0

    def __post_init__(self) -> None:
        if self.window_packets < 1 or self.rto_ns < 1 or self.feedback_packets < 1:
            raise WireError(f"{self}: window, timer and feedback must be 1 or more")
        if not (0 < self.first_rate <= 1 and 0 <= self.increase <= 1):
            raise WireError(f"{self}: rates are shares of the line's, above 0 and up to 1")


def reno(rto_ns: int = 10_000_000) -> Policy:
    """TCP with selective acknowledgements over ECMP; a full buffer drops."""
    return Policy(Transport.RENO, rto_ns=rto_ns)


def dctcp(mark_bytes: int = 100_000, rto_ns: int = 10_000_000) -> Policy:
    """DCTCP over ECMP with its published shortest timer of 10 ms."""
    return Policy(Transport.DCTCP, mark_bytes=mark_bytes, rto_ns=rto_ns)


def pfabric(window_packets: int = 72, rto_ns: int = 30_000) -> Policy:
    """pFabric with packets sprayed, a window of one bandwidth-delay product, a timer of 3 RTT."""
    return Policy(Transport.PFABRIC, Routing.SPRAY, window_packets=window_packets, rto_ns=rto_ns)


def bounded(mark_bytes: int = 100_000, drop_bytes: int = 150_000, rto_ns: int = 100_000) -> Policy:
    """Order-free packets sprayed over all spines; unimportant ones are dropped first."""
    return Policy(
        Transport.BOUNDED, Routing.SPRAY, mark_bytes=mark_bytes, drop_bytes=drop_bytes,
        rto_ns=rto_ns,
    )  # fmt: skip
