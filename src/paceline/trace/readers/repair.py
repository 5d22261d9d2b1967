"""Mend one event of invalid JSON, as the profiler really writes it (pytorch#126703).

Names and arguments are copied unescaped: Windows paths, quotes inside shader and template names,
control characters; floats may be NaN or infinite. A quote ends a string only where JSON can go on
after it.
"""

import re
from typing import Final


def mended(text: bytes) -> bytes:
    """The same event with its strings escaped and its non-numbers null; may still be invalid."""
    plain = text.decode("utf-8", "replace")
    parts: list[str] = []
    at = 0
    while at < len(plain):
        if plain[at] != '"':
            stop = _until_quote(plain, at)
            parts.append(_NOT_NUMBER.sub("null", plain[at:stop]))
        else:
            stop = _closing_quote(plain, at + 1) + 1
            parts.append('"' + _escaped(plain[at + 1 : stop - 1]) + '"')
        at = stop
    return "".join(parts).encode()


_NOT_NUMBER: Final = re.compile(r"-?\b(?:nan|inf|infinity)\b", re.IGNORECASE)
_NEXT: Final = r'"[^"]*"\s*[:,\]] | [-\d\[{\]}] | null | true | false'
_STRING_END: Final = re.compile(rf"\s*(?: : | \}} | \] | ,\s*(?:{_NEXT}) | $ )", re.VERBOSE)
"""What may follow a closing quote: a colon, a bracket, or a comma and the next key or element."""

_ODD: Final = re.compile(r'(\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))|[\\"]|[\x00-\x1f]')
"""A whole escape, which stays, or a lone backslash, quote or control character, which does not."""


def _until_quote(text: str, start: int) -> int:
    stop = text.find('"', start)
    return len(text) if stop == -1 else stop


def _closing_quote(text: str, start: int) -> int:
    """Index of the quote that ends the string whose content starts here."""
    at = text.find('"', start)
    while at != -1:
        escaped = (at - len(text[:at].rstrip("\\"))) % 2 == 1
        if not escaped and _STRING_END.match(text, at + 1):
            return at
        at = text.find('"', at + 1)
    return len(text)


def _escaped(content: str) -> str:
    return _ODD.sub(_as_json, content)


def _as_json(found: re.Match[str]) -> str:
    if found[1]:
        return found[1]
    return f"\\{found[0]}" if found[0] in '"\\' else f"\\u{ord(found[0]):04x}"
