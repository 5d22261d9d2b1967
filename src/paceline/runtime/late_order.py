"""Which weight gradients are held back, and in which order they are then made: said once for the
graph and for the live job."""

from collections.abc import Sequence

NEXT_USE, LARGEST = "next use", "largest"
ORDERS = (NEXT_USE, LARGEST)


def late_order(sizes: Sequence[int], first: int, order: str) -> list[int]:
    """Of layers' weights, as the model defines them: the first so many, or all for 0, in turn."""
    held = list(range(len(sizes)))[: first or None]
    return held if order == NEXT_USE else sorted(held, key=lambda layer: -sizes[layer])
