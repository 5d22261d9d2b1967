"""Trace files inside other JSON: named, so that one knows what to take out of them."""

import re
from typing import Final

_IN_AN_OBJECT: Final = re.compile(rb'"traceEvents"\s*:\s*\{\s*"((?:[^"\\]|\\.){1,60})"')
_IN_A_LIST: Final = re.compile(rb'\A\s*\[\s*\{.*?"traceEvents"\s*:', re.DOTALL)
_OUT: Final = (
    'Save each list of events as a file of its own, {"traceEvents": [...]}, and import these'
)


def nested(head: bytes) -> str:
    """What is wrong with a document that begins like this; empty where it is not nested."""
    if found := _IN_AN_OBJECT.search(head):
        key = found[1].decode("utf-8", "replace")
        return (
            f"holds an object under traceEvents, whose first key is {key!r}, where a list of "
            f"events belongs: several traces, or one, were put into another. {_OUT}"
        )
    if _IN_A_LIST.search(head):
        return f"is a list of whole traces, each with its own traceEvents. {_OUT}"
    return ""
