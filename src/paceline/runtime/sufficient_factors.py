"""Which layers hand over rows in place of their weight's gradient, and how many bytes: said once
for the graph and for the live job."""

HEADER_BYTES = 8
"""In front of each payload: how many rows the rank has."""


def sends_less(shape: tuple[int, ...], rows: int, members: int) -> bool:
    """Whether all ranks' rows of a layer's input and of its result's gradient, gathered, are fewer
    bytes to send than the weight's gradient, all-reduced: (n - 1) r (a + b) < 2 (n - 1) / n a b."""
    outputs, inputs = shape
    return members * rows * (outputs + inputs) < 2 * outputs * inputs


def payload_bytes(shape: tuple[int, ...], rows: int, element_bytes: int) -> int:
    """What a rank hands over."""
    return HEADER_BYTES + rows * sum(shape) * element_bytes
