"""`fragments_of`: the parameters of a model in parts of about as many bytes."""

from collections.abc import Sequence

from paceline.errors import GraphError


def fragments_of(sizes: Sequence[int], count: int) -> tuple[tuple[int, ...], ...]:
    """Neighbours stay together: each parameter belongs to the part in which its middle lies."""
    whole, passed = sum(sizes), 0
    found: list[list[int]] = [[] for _ in range(count)]
    for parameter, size in enumerate(sizes):
        found[min(count - 1, (2 * passed + size) * count // max(1, 2 * whole))].append(parameter)
        passed += size
    if not all(found):
        raise GraphError(
            f"{len(sizes)} parameters do not make {count} fragments of about as many bytes; ask "
            "for fewer fragments"
        )
    return tuple(map(tuple, found))
