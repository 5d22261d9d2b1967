"""`largest_fitting`: the largest batch that fits, by halving what is left between two."""

from collections.abc import Callable

FINE = 8  # what is left undecided is at most this part of the batch


def largest_fitting(fits: int, too_large: int, tried: Callable[[int], bool]) -> int:
    """Between one that fits (0: none known) and one that does not. Fewer are tried the larger the
    batch is: it ends within an eighth."""
    while too_large - fits > max(1, fits // FINE):
        middle = (fits + too_large) // 2
        if tried(middle):
            fits = middle
        else:
            too_large = middle
    return fits
