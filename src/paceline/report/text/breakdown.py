"""Where each rank's step went, as a bar. Every state has its own glyph: colour is not needed."""

from typing import TYPE_CHECKING

from paceline.report.summary import Summary

if TYPE_CHECKING:
    from rich.console import Group

STATES = {
    "exposed_compute_ns": ("compute", "█", "green"),
    "overlapped_ns": ("overlapped", "▓", "cyan"),
    "exposed_transfer_ns": ("transfer", "▒", "yellow"),
    "waiting_ns": ("waiting", "░", "red"),
    "data_loading_ns": ("data", "+", "magenta"),
    "idle_ns": ("idle", "·", "dim"),
}
"""State -> what it is called, its glyph, its colour."""

_WIDTH, _MOST_RANKS = 36, 16  # fits six states into 80 columns


def breakdown_table(summary: Summary) -> "Group":
    """A legend, and a bar a rank; of many ranks those that wait least and most."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    used = {s: row for s, row in STATES.items() if any(r[s] for r in summary.rank_shares.values())}
    legend = [(f"{glyph} {name}  ", colour) for name, glyph, colour in used.values()]
    table = Table(box=None, pad_edge=False)
    table.add_column("rank", justify="right")
    table.add_column("", no_wrap=True)
    for _, glyph, colour in used.values():
        table.add_column(Text(glyph, style=colour), justify="right")
    ranks = shown_ranks(summary)
    for rank in ranks:
        shares = summary.rank_shares[rank]
        numbers = [f"{100 * shares[state] / max(summary.step_ns, 1):.0f} %" for state in used]
        table.add_row(str(rank), Text.assemble(*bar(shares, summary.step_ns)), *numbers)
    if len(ranks) < summary.ranks:
        table.caption = f"{len(ranks)} of {summary.ranks:,} ranks: those that wait least and most"
    return Group(Text.assemble("where each rank's time goes:  ", *legend), table)


def shown_ranks(summary: Summary) -> list[int]:
    """All, or those at both ends of waiting."""
    ranks = list(summary.rank_shares)
    if len(ranks) <= _MOST_RANKS:
        return ranks
    by_waiting = sorted(ranks, key=lambda r: summary.rank_shares[r]["waiting_ns"])
    return sorted(by_waiting[: _MOST_RANKS // 2] + by_waiting[-_MOST_RANKS // 2 :])


def bar(shares: dict[str, int], step_ns: int) -> list[tuple[str, str]]:
    """Glyphs and their colours; cells are rounded so that they always fill the width."""
    pieces, total, filled = [], 0, 0
    for state, (_, glyph, colour) in STATES.items():
        total += shares[state]
        upto = round(_WIDTH * total / max(step_ns, 1))
        pieces.append((glyph * (upto - filled), colour))
        filled = upto
    return pieces
