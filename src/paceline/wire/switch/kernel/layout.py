"""Where things stand in the one value of a port's BPF map, which its program and we share."""

from paceline.wire.switch.codes import IMPORTANCES, PRIORITIES
from paceline.wire.switch.rule import Rule

BUSY = 0  # per priority: when all of it and above will have been sent, ns
LIMITS = BUSY + 8 * PRIORITIES  # per importance, and of plain packets: the longest backlog, ns
SPRAYED = LIMITS + 8 * (IMPORTANCES + 1)
CELLS = SPRAYED + 8  # per code: packets passed, marked, dropped
PASSED, MARKED, DROPPED = 0, 8, 16
CELL_BYTES = 24
VALUE_BYTES = CELLS + CELL_BYTES * PRIORITIES * IMPORTANCES


def ns_per_kib(rule: Rule) -> int:
    """How long the port takes to send 1,024 bytes."""
    return 1024 * 8_000_000_000 // rule.bits_per_s


def first_value(rule: Rule) -> bytes:
    """A map's value at the start: an idle port and its limits."""
    limits = (*rule.drop_bytes, rule.buffer_bytes)
    words = [b * ns_per_kib(rule) >> 10 for b in limits]
    made = bytearray(VALUE_BYTES)
    for row, word in enumerate(words):
        made[LIMITS + 8 * row : LIMITS + 8 * row + 8] = word.to_bytes(8, "little")
    return bytes(made)
