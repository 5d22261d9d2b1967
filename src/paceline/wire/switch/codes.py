"""What a packet tells switches: priority and importance, in the six DSCP bits of IP's TOS byte.

The upper three bits are the priority, the lower three the importance. DSCP 0 is what packets have
that say nothing, such as TCP's: they are served last, and only a full buffer drops them. The two
lowest bits of the byte are ECN's: a packet that is ECN-capable may be marked.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.wire.errors import WireError

PRIORITIES = IMPORTANCES = 8
ECN_CAPABLE = 0b10
CONGESTED = 0b11
PLAIN = 0
"""The DSCP of packets that say nothing."""
PLAIN_PRIORITY = PRIORITIES - 1


@dataclass(frozen=True)
class Code:
    """Priority 0 is served first; importance 7 is dropped last."""

    priority: int
    importance: int

    def __post_init__(self) -> None:
        inside = 0 <= self.priority < PRIORITIES and 0 <= self.importance < IMPORTANCES
        if not inside or self.dscp == PLAIN:
            raise WireError(
                f"priority {self.priority} with importance {self.importance}; give 0 to 7 each, "
                "but not priority 0 with importance 0, which means a plain packet"
            )

    @property
    def dscp(self) -> int:
        return self.priority << 3 | self.importance


def tos(code: Code | None, *, markable: bool) -> int:
    """The TOS byte, as a sender sets it with IP_TOS; None: of a plain packet."""
    dscp = PLAIN if code is None else code.dscp
    return dscp << 2 | (ECN_CAPABLE if markable else 0)


def tos_of_each(
    priority: NDArray[np.int64], importance: NDArray[np.int64], markable: NDArray[np.bool_]
) -> NDArray[np.uint8]:
    """`tos` of many packets, none of them plain."""
    return (priority << 5 | importance << 2 | np.where(markable, ECN_CAPABLE, 0)).astype(np.uint8)


def code_of(tos_byte: int) -> Code | None:
    """What a TOS byte says; None of a plain packet."""
    dscp = tos_byte >> 2
    if dscp == PLAIN:
        return None
    return Code(dscp >> 3, dscp & 7)


def is_markable(tos_byte: int) -> bool:
    return tos_byte & 3 in (0b01, 0b10)
