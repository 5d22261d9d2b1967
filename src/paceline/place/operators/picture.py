"""A placement as SVG: the graph from left to right, coloured by device, and the loads below."""

from html import escape

import numpy as np

from paceline.place.operators.answer import Answer
from paceline.place.operators.problem import Ints, Problem, outgoing, topological_order
from paceline.place.operators.split import Split

COLOURS = (
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee8866", "#44bb99",
    "#bbcc33", "#999933", "#882255", "#117733",
)  # fmt: skip
CPU_COLOUR = "#bbbbbb"
WIDTH, ROW, BAR, LEFT = 1000, 22, 26, 120


def svg(problem: Problem, answer: Answer, title: str) -> str:
    """A self-contained SVG document; an error has no picture."""
    assert answer.split is not None
    column, row = _layout(problem)
    graph_height = int(row.max() + 1) * ROW + 20
    parts = answer.split.parts
    height = 50 + graph_height + 30 + BAR * len(parts) + 20
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="10" y="24" font-size="16">{escape(title)}</text>',
        *_graph(problem, answer.split, column, row),
        *_bars(problem, answer, 50 + graph_height + 20),
        "</svg>",
    ]
    return "\n".join(body) + "\n"


def device_names(split: Split) -> list[str]:
    """What each part is called, in the order of the parts."""
    names, accelerators, cpus = [], 0, 0
    for part in split.parts:
        if part.on_cpu:
            names.append(f"CPU {cpus}")
            cpus += 1
        else:
            last = accelerators + part.replicas - 1
            many = f"-{last}" if part.replicas > 1 else ""
            names.append(f"accelerator {accelerators}{many}")
            accelerators = last + 1
    return names


def _layout(problem: Problem) -> tuple[Ints, Ints]:
    """Column of each node: longest way from a source. Row: place among its column's nodes."""
    order, _ = topological_order(len(problem), problem.source, problem.target)
    start, after = outgoing(len(problem), problem.source, problem.target)
    column = np.zeros(len(problem), np.int64)
    for node in order.tolist():
        for reader in after[start[node] : start[node + 1]].tolist():
            column[reader] = max(column[reader], column[node] + 1)
    row = np.zeros(len(problem), np.int64)
    filled: dict[int, int] = {}
    for node in order.tolist():
        row[node] = filled.get(int(column[node]), 0)
        filled[int(column[node])] = int(row[node]) + 1
    return column, row


def _graph(problem: Problem, split: Split, column: Ints, row: Ints) -> list[str]:
    step = (WIDTH - 40) / max(1, int(column.max()))
    x, y = 20 + column * step, 55 + row * ROW
    device = split.device(problem)
    shapes = []
    for s, t in zip(problem.source.tolist(), problem.target.tolist()):
        crosses = device[s] != device[t]
        stroke = '#cc3311" stroke-width="1.2' if crosses else '#dddddd" stroke-width="0.8'
        shapes.append(
            f'<line x1="{x[s]:.1f}" y1="{y[s]}" x2="{x[t]:.1f}" y2="{y[t]}" stroke="{stroke}"/>'
        )
    colours = _colours(split)
    radius = max(2.0, min(8.0, step / 2.5))
    for node in range(len(problem)):
        shapes.append(
            f'<circle cx="{x[node]:.1f}" cy="{y[node]}" r="{radius:.1f}" '
            f'fill="{colours[int(device[node])]}"><title>{escape(problem.name(node))}</title></circle>'
        )
    return shapes


def _bars(problem: Problem, answer: Answer, top: int) -> list[str]:
    assert answer.split is not None
    loads = answer.split.loads(problem)
    scale = (WIDTH - LEFT - 90) / (max(loads) or 1.0)
    shapes = []
    for i, (name, load, colour) in enumerate(
        zip(device_names(answer.split), loads, _colours(answer.split))
    ):
        y = top + i * BAR
        shapes += [
            f'<text x="10" y="{y + 15}">{name}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{load * scale:.1f}" height="{BAR - 6}" '
            f'fill="{colour}"/>',
            f'<text x="{LEFT + load * scale + 6:.1f}" y="{y + 15}">{load:.4g}</text>',
        ]
    bound = LEFT + min(answer.lower_bound, max(loads)) * scale
    bottom = top + BAR * len(loads)
    shapes.append(
        f'<line x1="{bound:.1f}" y1="{top - 6}" x2="{bound:.1f}" y2="{bottom}" stroke="black" '
        f'stroke-dasharray="4 3"/><text x="{bound:.1f}" y="{bottom + 14}" text-anchor="end">'
        f"proven bound {answer.lower_bound:.4g}</text>"
    )
    return shapes


def _colours(split: Split) -> list[str]:
    accelerators = iter(range(len(split.parts)))
    return [
        CPU_COLOUR if part.on_cpu else COLOURS[next(accelerators) % len(COLOURS)]
        for part in split.parts
    ]
