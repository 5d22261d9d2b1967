"""What a compiler makes of a chain of operators: neighbours that work element by element, and the
row-wise ones between them, become one kernel, which reads what the first needs and what is added on
the way, and writes the last result.

Wrong where a value inside the chain is used again later: the compiler then writes that one too.
"""

from dataclasses import replace

from paceline.graph.work import Elements, Family, Rows, Work

_FUSES = frozenset({Family.POINTWISE, Family.COPY, Family.SOFTMAX, Family.NORM, Family.REDUCTION})


def fused(works: list[Work]) -> list[Work]:
    """The same work with chains joined."""
    made: list[Work] = []
    for work in works:
        if made and _fits(made[-1], work):
            made[-1] = _joined(made[-1], work)
        else:
            made.append(work)
    return made


def _fits(before: Work, work: Work) -> bool:
    return before.family in _FUSES and work.family in _FUSES and _count(before) == _count(work)


def _joined(before: Work, work: Work) -> Work:
    """The row-wise one decides how the kernel works; what was just written is not read again."""
    kept = work if isinstance(work.dims, Rows) else before
    more = max(0, work.read_bytes - before.written_bytes)
    return replace(
        kept,
        flops=before.flops + work.flops,
        read_bytes=before.read_bytes + more,
        written_bytes=work.written_bytes,
    )


def _count(work: Work) -> int:
    dims = work.dims
    if isinstance(dims, Rows):
        return dims.rows * dims.columns
    return dims.count if isinstance(dims, Elements) else 0
