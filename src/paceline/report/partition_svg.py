"""A partition as a picture: a bar for each client, a colour for each class."""

from paceline.learn import Partition

_COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2",
            "#97bbf5", "#9c6b4e", "#9498a0")  # fmt: skip
_BAR, _GAP, _LEFT, _WIDE, _TOP = 14, 3, 46, 560, 26


def partition_svg(partition: Partition) -> str:
    """A text that a browser shows."""
    high = _TOP + len(partition) * (_BAR + _GAP) + 24
    wide = _LEFT + _WIDE + 70
    most = max(partition.sizes)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" '
        f'font-family="sans-serif" font-size="11">',
        f'<text x="{_LEFT}" y="16">{len(partition)} clients, {partition.how}: '
        f"skew {partition.skew:.3f}</text>",
    ]
    for number, counts in enumerate(partition.counts.tolist()):
        y = _TOP + number * (_BAR + _GAP)
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 11}" text-anchor="end">{number}</text>')
        x = float(_LEFT)
        for label, count in enumerate(counts):
            length = _WIDE * count / most
            if count:
                parts.append(_bar(x, y, length, label, f"class {label}: {count}"))
            x += length
        parts.append(f'<text x="{x + 5:.1f}" y="{y + 11}">{sum(counts):,}</text>')
    return "\n".join([*parts, *_legend(partition, high - 8), "</svg>"]) + "\n"


def _bar(x: float, y: int, length: float, label: int, told: str) -> str:
    colour = _COLOURS[label % len(_COLOURS)]
    return (
        f'<rect x="{x:.2f}" y="{y}" width="{length:.2f}" height="{_BAR}" fill="{colour}">'
        f"<title>{told}</title></rect>"
    )


def _legend(partition: Partition, y: int) -> list[str]:
    classes = partition.counts.shape[1]
    step = _WIDE / classes
    return [
        _bar(_LEFT + at * step, y - 11, 10, at, f"class {at}")
        + f'<text x="{_LEFT + at * step + 13:.1f}" y="{y}">{at}</text>'
        for at in range(classes)
    ]
