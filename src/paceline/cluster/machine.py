"""`Machine`: one machine whose cores all workers share, as in the lab.

The defaults were measured on the machine of the published results (two cores, Linux 6.18, gloo
over TCP between network namespaces); `paceline measure --lab` measures another one.
"""

import math
from dataclasses import dataclass

FAST_BYTES_PER_S, SLOW_BYTES_PER_S = 125e6, 12.5e6
"""Of the links over which the cost of a byte beside work is measured."""


@dataclass(frozen=True)
class Rests:
    """What a rest of its thread costs the work behind it: the processor's clock and caches are not
    what they were."""

    factor: float = 1.0
    least_ns: float = 2_000_000.0
    warm_ns: float = 0.0

    @property
    def cost(self) -> bool:
        return self.factor > 1


NO_COST = Rests()


@dataclass(frozen=True)
class Machine:
    cores: float
    cpu_ns_per_byte: float = 4.9
    """Processor time of the whole machine for a byte that a worker sends over TCP at 1 Gbit/s and
    below (sending, forwarding, receiving, adding up). Measured: four workers at 1 Gbit/s need 367
    ms for 37.8 MB each where the links alone need 319, which is 2.3 cores' worth on two."""
    datagram_ns_per_byte: float = 0.0
    """The same of our own transport, which `bounded_loss` sends over. 0: as over TCP."""
    turn_ns: float = 2_400_000.0
    """What a message waits for its turn, for each thread at work on its core while work takes all
    cores. Measured: 2.0 to 2.9 ms, about a slice of Linux's scheduler."""
    call_ns: float = 150_000.0
    """A collective's own time. Measured: an all-reduce of 1 to 64 KB between namespaces takes 0.3
    to 0.4 ms with two workers."""
    message_ns: float = 60_000.0
    """Time of each message, of a collective or between stages, beside its bytes (the same
    measurement)."""
    stall_ns: float = 0.0
    """The least time of each of gloo's messages in turn that hold bytes, where workers share cores:
    both threads of a connection may stand until the scheduler's next tick. 0: not measured."""
    send_ns_per_byte: float = 0.0
    """How much of `cpu_ns_per_byte` the sender's own thread spends, where it sends itself: the
    stages of a pipeline do, the workers of a collective leave it to the library's thread."""
    late_ns: float = 0.0
    """How much later a message comes that a stage asks for while all cores work: who wakes for it
    waits for the scheduler. Measured with the profile of the stages."""
    rested: float = 1.0
    """How many times as long work takes that begins after a rest of its thread (the same)."""
    rest_ns: float = 2_000_000.0
    """A shorter wait is no rest. Measured on that machine: passes after 2 ms last some 3 % longer,
    after 10 ms 9 %."""
    warm_ns: float = 0.0
    """For how long a thread works behind a rest until that is over; 0: one op."""

    crowded_product: float = 1.0
    """How many times the processor time a matrix product takes where twice as many threads as cores
    are at work, rather than one alone: they share caches and a core's units."""
    crowded_pass: float = 1.0
    """The same of work that passes through memory."""
    together_ns: float = 0.0
    """How much later than by fair shares of the cores the last of twice as many threads has done
    some milliseconds of work that all begin at once: the system lays them on cores unevenly, and
    moves them late."""
    dtensor_forward_ns: float = 0.0
    """What PyTorch spends on a product whose weight is a DTensor (tensor parallelism), beside the
    product, in the forward pass: in Python, whatever its size."""
    dtensor_backward_ns: float = 0.0
    """The same of its backward pass."""
    dtensor_update_ns: float = 0.0
    """The same of an update of a weight that is a DTensor (tensor parallelism, FSDP2)."""
    fast_beside_ns_per_byte: float = 0.0
    """What a byte takes more of the processors while work takes all cores, over links of 1 Gbit/s:
    work loses its caches to it. Measured as work that is lost beside all-reduces: 0.8 ns. 0: not
    measured."""
    slow_beside_ns_per_byte: float = 0.0
    """The same over links of 100 Mbit/s, where who handles packets wakes for fewer of them at a
    time (the same measurement: 9 ns)."""
    call_beside_ns: float = 0.0
    """What a collective takes each member more than its bytes, while work takes all cores (the same
    measurement: 0.3 ms)."""

    gathered_block_ns: float = 0.0
    """What FSDP2 spends of the training thread to gather a block's weights, beside the call: in
    Python, whatever their sizes."""
    gathered_weight_ns: float = 0.0
    """The same more for each weight of the block."""
    reduced_block_ns: float = 0.0
    """What it spends to reduce the block's gradients."""
    reduced_weight_ns: float = 0.0
    """The same more for each weight."""

    def crowded(self, threads: float) -> float:
        """How many times the processor time products take where so many threads are at work: with
        up to one a core as much as alone, with two or more as long as was measured of two."""
        return 1.0 + (self.crowded_product - 1.0) * min(max(threads / self.cores - 1.0, 0.0), 1.0)

    def beside_ns_per_byte(self, bytes_per_s: float) -> float:
        """Over links of such a rate: between the two that were measured by the logarithm of the
        rate, beyond them as at the nearer one."""
        way = math.log(FAST_BYTES_PER_S / bytes_per_s, FAST_BYTES_PER_S / SLOW_BYTES_PER_S)
        more = self.slow_beside_ns_per_byte - self.fast_beside_ns_per_byte
        return self.fast_beside_ns_per_byte + more * min(max(way, 0.0), 1.0)

    @property
    def rests(self) -> Rests:
        return Rests(self.rested, self.rest_ns, self.warm_ns)

    @property
    def defaults(self) -> tuple[str, ...]:
        """Constants of collectives that were not given, by name."""
        usual = Machine(self.cores)
        names = ("cpu_ns_per_byte", "turn_ns", "call_ns", "message_ns")
        return tuple(name for name in names if getattr(self, name) == getattr(usual, name))
