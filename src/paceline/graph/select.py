"""Selections: which ops an edit or a question is about, as text.

`kind=transfer,rank=0|2-3,name~attn.*` is the conjunction of its terms. A term is a field, an
operator (`=`, `!=`, `~` regular expression, `<`, `>`), and values separated by `|`; numbers may be
ranges `2-5`. Empty text, or `all`, selects every op. `kind=transfer:0.5` adds a factor.
"""

import math
import re
from collections.abc import Callable
from enum import IntEnum
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from paceline.errors import GraphError
from paceline.graph.graph import Bool, Graph, Int64
from paceline.graph.kinds import NONE, Collective, DType, LaneKind, OpKind, Phase

_TERM = re.compile(r"\s*(\w+)\s*(!=|=|~|<|>)\s*(.*?)\s*$")
_ENUMS: dict[str, type[IntEnum]] = {
    "kind": OpKind,
    "phase": Phase,
    "collective": Collective,
    "dtype": DType,
}
_NUMBERS = ("rank", "step", "priority", "dur_ns", "size_bytes", "flops", "instance")
_TEXTS = ("name", "layer", "tensor", "lane", "group")
_FIELDS = (*_ENUMS, "lane_kind", *_NUMBERS, *_TEXTS)


def select(graph: Graph, expression: str) -> Int64:
    """Ids of the ops that satisfy every term, ascending."""
    return np.flatnonzero(selected(graph, expression))


def selected(graph: Graph, expression: str) -> Bool:
    """Whether each op satisfies every term."""
    if expression.strip() in {"", "all"}:
        return np.ones(len(graph), np.bool_)
    return _all([_term(graph, term) for term in expression.split(",")])


def scaling(text: str) -> tuple[str, float]:
    """`kind=transfer:0.5` as the selection and the factor."""
    expression, colon, factor = text.rpartition(":")
    try:
        value = float(factor)
    except ValueError:
        value = math.nan
    if not colon or not math.isfinite(value) or value < 0:
        raise GraphError(
            f"scaling {text!r} is not SELECTION:FACTOR with a factor of 0 or more, "
            "as in kind=transfer:0.5"
        )
    return expression, value


def _term(graph: Graph, term: str) -> Bool:
    match = _TERM.match(term)
    if not match or match[1] not in _FIELDS:
        raise GraphError(
            f"selection term {term!r} is not FIELD=VALUE; fields are {', '.join(_FIELDS)}, "
            "operators = != ~ < >"
        )
    field, operator, value = match.groups()
    if operator == "!=":
        return ~_equal(graph, field, value)
    if operator == "=":
        return _equal(graph, field, value)
    if operator == "~":
        return _matches(graph, field, value)
    bound = _number(field, value)
    column = _numbers(graph, field)
    return column < bound if operator == "<" else column > bound


def _equal(graph: Graph, field: str, value: str) -> Bool:
    values = value.split("|")
    if field in _ENUMS:
        column = getattr(graph.ops, field)
        return _any([column == _member(_ENUMS[field], v) for v in values])
    if field == "lane_kind":
        kinds = [_member(LaneKind, v) for v in values]
        return np.isin(graph.lanes.kind[graph.ops.lane], kinds)
    if field in _TEXTS:
        wanted = set(values)
        return _by_text(graph, field, lambda text: text in wanted)
    chosen = np.zeros(len(graph), np.bool_)
    for part in values:
        low, dash, high = part.partition("-")
        first = _number(field, low)
        last = _number(field, high) if dash else first
        column = _numbers(graph, field)
        chosen |= (column >= first) & (column <= last)
    return chosen


def _all(holds: list[Bool]) -> Bool:
    return reduce(np.logical_and, holds)


def _any(holds: list[Bool]) -> Bool:
    return reduce(np.logical_or, holds)


def _matches(graph: Graph, field: str, pattern: str) -> Bool:
    if field not in _TEXTS:
        raise GraphError(f"~ needs a text field ({', '.join(_TEXTS)}), not {field}")
    try:
        search = re.compile(pattern).search
    except re.error as error:
        raise GraphError(f"{pattern!r} is not a regular expression: {error}") from error
    return _by_text(graph, field, lambda text: search(text) is not None)


def _by_text(graph: Graph, field: str, wanted: Callable[[str], bool]) -> Bool:
    """Test each text of the pool once, then look the ops up."""
    pool: tuple[str, ...] = graph.names
    if field == "lane":
        pool = graph.lanes.name
    elif field == "group":
        pool = tuple(group.name for group in graph.groups)
    holds = np.array([*(wanted(text) for text in pool), wanted("")], np.bool_)
    chosen: Bool = holds[getattr(graph.ops, field)]  # NONE, -1, looks up the empty text
    return chosen


def _numbers(graph: Graph, field: str) -> NDArray[np.integer]:
    if field not in _NUMBERS:
        raise GraphError(f"{field} is not a number; numbers are {', '.join(_NUMBERS)}")
    column: NDArray[np.integer] = getattr(graph.ops, field)
    return column


def _number(field: str, text: str) -> int:
    try:
        return NONE if text == "none" else int(text)
    except ValueError:
        raise GraphError(f"{text!r} is not a whole number for {field}") from None


def _member(enum: type[IntEnum], text: str) -> int:
    try:
        return enum[text.strip().upper().replace("-", "_")]
    except KeyError:
        known = ", ".join(member.name.lower() for member in enum)
        raise GraphError(f"{text!r} is no {enum.__name__}; known are {known}") from None
