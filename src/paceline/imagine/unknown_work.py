"""Operators of an imagined job that no rule knows, named with their share of it.

Nothing is known of their dimensions, so that no forecast prices them: what they touch, and the
arithmetic that torch counts, go by the device's rates. Where torch counts none, arithmetic is free.
"""

from collections import Counter
from collections.abc import Sequence

from paceline.graph import NONE
from paceline.imagine.imagined import ImaginedOp

_NAMED = 5


def unknown_work(rows: Sequence[ImaginedOp]) -> str:
    """One sentence, the operators that touch most first; empty where every one is known."""
    work = [row for row in rows if not row.group]
    unknown = [row for row in work if row.work == NONE]
    if not unknown:
        return ""
    whole = max(1, sum(row.size_bytes for row in work))
    calls, touched = Counter(row.name for row in unknown), Counter[str]()
    for row in unknown:
        touched[row.name] += row.size_bytes
    named = [
        f"{name} ({calls[name]} of {len(work)} ops, {size / whole:.1%} of the bytes)"
        for name, size in touched.most_common(_NAMED)
    ]
    left = len(touched) - len(named)
    return (
        "no rule knows these operators, which go by the bytes that they touch: "
        + ", ".join(named)
        + (f", and {left} more" if left else "")
    )
