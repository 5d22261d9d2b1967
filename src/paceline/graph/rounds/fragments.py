"""`fragments_of`: the parameters of a model in parts of about as many bytes."""

from collections.abc import Sequence

from paceline.errors import GraphError


def fragments_of(sizes: Sequence[int], count: int) -> tuple[tuple[int, ...], ...]:
    """Neighbours stay together. A part is closed where it reaches its share of all bytes, or where
    the others need what is left, one parameter each."""
    if len(sizes) < count:
        raise GraphError(
            f"{len(sizes)} parameters do not make {count} fragments; ask for fewer fragments"
        )
    whole, passed = sum(sizes), 0
    found: list[list[int]] = [[]]
    for parameter, size in enumerate(sizes):
        found[-1].append(parameter)
        passed += size
        wanted, left = count - len(found), len(sizes) - parameter - 1
        if wanted and (passed * count >= len(found) * whole or left == wanted):
            found.append([])
    return tuple(map(tuple, found))
