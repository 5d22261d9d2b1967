"""The tree from model to kernel; branches below a share of the whole are left out."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from paceline.analyse.tree import Node
from paceline.report.text.quantities import duration
from paceline.report.text.table import TableRows, short

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.tree import Tree

_STEP: Final = "\u2003"  # spaces that no page joins
_DEEPEST: Final = 6
_LEAST: Final = 0.01  # of the root's time


def tree_rows(found: Sequence[Node], top: int) -> TableRows:
    """The same as rows, each behind as many spaces as it lies deep, for a page."""
    columns = ("model, module, operator, kernel", "times", "host", "device")
    rows = (row for root in found[:top] for row in _rows(root, max(_time(root), 1), 0, top))
    return TableRows.of("from the model to its kernels, with times at every level", columns, rows)


def tree_shown(found: Sequence[Node], top: int) -> "RenderableType":
    from rich.console import Group

    return Group(*(_grown(node, top) for node in found[:top]))


def _grown(node: Node, top: int) -> "Tree":
    from rich.text import Text
    from rich.tree import Tree

    root = Tree(Text(_line(node)))
    _add(root, node, max(_time(node), 1), _DEEPEST, top)
    return root


def _add(tree: "Tree", node: Node, whole: int, deepest: int, top: int) -> None:
    from rich.text import Text

    for child in node.inside[:top]:
        if deepest and _time(child) > _LEAST * whole:
            _add(tree.add(Text(_line(child))), child, whole, deepest - 1, top)


def _rows(node: Node, whole: int, depth: int, top: int) -> Iterator[tuple[str, ...]]:
    times = (duration(ns) if ns else "" for ns in (node.host_ns, node.device_ns))
    yield (f"{_STEP * depth}{node.kind} {short(node.name)}", f"{node.count:,}", *times)
    for child in node.inside[:top]:
        if depth < _DEEPEST and _time(child) > _LEAST * whole:
            yield from _rows(child, whole, depth + 1, top)


def _time(node: Node) -> int:
    return node.device_ns or node.host_ns


def _line(node: Node) -> str:
    times = f"host {duration(node.host_ns)}" if node.host_ns else ""
    device = f"device {duration(node.device_ns)}" if node.device_ns else ""
    told = ", ".join(part for part in (times, device) if part)
    return f"{node.kind} {short(node.name)}, {node.count} times: {told}"
