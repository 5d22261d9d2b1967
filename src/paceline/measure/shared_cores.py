"""`SharedCores`: what communication takes of a machine whose cores all workers share."""

from dataclasses import dataclass, fields

from paceline.cluster.machine import Machine
from paceline.measure.constant import Constant

SLACK = 1.03
"""As much longer than the links alone before the cores are held to be the limit."""


@dataclass(frozen=True)
class SharedCores:
    """The constants of `Machine`, and what the cost of a byte was found by. A constant is None
    where no line went through the measurements."""

    cores: int
    workers: int
    all_reduce_s: float  # the fastest of some: others on the machine can only lengthen it
    links_alone_s: float
    cpu_ns_per_byte: Constant
    turn_ns: Constant
    call_ns: Constant | None = None
    message_ns: Constant | None = None
    stall_ns: Constant | None = None
    rested: Constant | None = None  # the last two only where rests cost something
    rest_ns: Constant | None = None
    warm_ns: Constant | None = None
    crowded_product: Constant | None = None
    crowded_pass: Constant | None = None
    together_ns: Constant | None = None
    dtensor_forward_ns: Constant | None = None
    dtensor_backward_ns: Constant | None = None
    dtensor_update_ns: Constant | None = None
    fast_beside_ns_per_byte: Constant | None = None
    slow_beside_ns_per_byte: Constant | None = None
    call_beside_ns: Constant | None = None
    datagram_ns_per_byte: Constant | None = None  # of our own transport
    gathered_block_ns: Constant | None = None
    gathered_weight_ns: Constant | None = None
    reduced_block_ns: Constant | None = None
    reduced_weight_ns: Constant | None = None

    @property
    def limited_by_cores(self) -> bool:
        """Else the links were the limit, and the cost of a byte is at most this."""
        return self.all_reduce_s > SLACK * self.links_alone_s

    def constants(self) -> dict[str, Constant]:
        """What was measured, by the name that it has in `Machine`."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in named.items() if isinstance(value, Constant)}

    def machine(self, cores: float = 0.0) -> Machine:
        """The machine with so many cores, or with its own."""
        told = {name: constant.value for name, constant in self.constants().items()}
        return Machine(cores or float(self.cores), **told)
