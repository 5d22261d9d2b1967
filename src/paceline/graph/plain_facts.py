"""`Facts` as plain JSON and back."""

from pathlib import Path
from typing import Any

import msgspec

from paceline.errors import FileError
from paceline.graph.facts import Facts


def plain_facts(facts: Facts) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(facts)
    return plain


def typed_facts(plain: Any, source: Path) -> Facts:
    """The facts that a file tells; an error that names the file where they do not fit."""
    try:
        return msgspec.convert(plain, Facts)
    except msgspec.ValidationError as error:
        raise FileError(f"{source} tells facts that do not fit: {error}. Save it anew.") from error
