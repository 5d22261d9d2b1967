"""Results as HTML for notebooks: the page in a frame, or a figure: a headline, bars and a table, in
one piece, without scripts."""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, Final

from paceline.compare import Difference
from paceline.predict import Prediction
from paceline.replay import Timeline
from paceline.report.summary import summarise
from paceline.report.text.difference import signed
from paceline.report.text.difference_words import basis_lines, cause_words, verdict_line
from paceline.report.text.headline import headline
from paceline.report.text.quantities import duration, share
from paceline.strategies import Plan
from paceline.verify import Verdict

_MAY: Final = "allow-scripts allow-downloads"
_FRAME: Final = "width:100%;height:640px;border:0"
_TOP: Final = 8
_COLOURS: Final = {  # told apart by colour-blind readers too (Okabe and Ito)
    "exposed_compute_ns": "#0072b2",
    "overlapped_ns": "#56b4e9",
    "exposed_transfer_ns": "#e69f00",
    "waiting_ns": "#cc79a7",
    "data_loading_ns": "#009e73",
    "idle_ns": "#bbbbbb",
}
_WORDS: Final = {
    "exposed_compute_ns": "computes",
    "overlapped_ns": "computes and transfers",
    "exposed_transfer_ns": "transfers",
    "waiting_ns": "waits for ranks",
    "data_loading_ns": "loads data",
    "idle_ns": "host calls and gaps",
}


def html_of(value: Any) -> str:
    """A timeline, prediction, difference or plan as its page, in a frame that may run scripts and
    save files and nothing else; a figure of those that have no page, and of verdicts."""
    from paceline.report.page.framed import framed

    page = framed(value)
    if page is None:
        return figure_of(value)
    name = f"Paceline: {type(value).__name__.lower()}"
    frame = f'title="{name}" srcdoc="{escape(page)}" sandbox="{_MAY}" style="{_FRAME}"'
    return f"<iframe {frame}></iframe>"


def figure_of(value: Any) -> str:
    """The figure of a timeline, prediction, verdict, difference or plan."""
    body = next(show(value) for kind, show in _SHOWN.items() if isinstance(value, kind))
    return f'<div style="font:13px sans-serif;max-width:60em">{body}</div>'


def _timeline(value: Timeline) -> str:
    summary = summarise(value, _TOP)
    whole = max(summary.step_ns, 1)
    bars = "".join(
        f"<tr><td>rank {rank}</td><td>{_bar(shares, whole)}</td></tr>"
        for rank, shares in list(summary.rank_shares.items())[: 4 * _TOP]
    )
    ops = [(row.name, row.kind, duration(row.share_ns), share(row.share_ns, whole))
           for row in summary.path_ops]  # fmt: skip
    more = len(summary.rank_shares) - 4 * _TOP
    rest = f"<p>and {more} more ranks</p>" if more > 0 else ""
    return (
        f"<p><b>{escape(headline(summary))}</b></p><table>{bars}</table>{rest}{_legend()}"
        f"{_table(('on the critical path', 'kind', 'time', 'share'), ops)}"
    )


def _prediction(value: Prediction) -> str:
    rows = [(name, duration(ns)) for name, ns in value.by_class.items()]
    between = f"{duration(value.low_ns)} to {duration(value.high_ns)}"
    words = (
        f"a step of {duration(value.step_ns)} on {value.workers} workers (typical error {between})"
    )
    rests = "".join(f"<li>{escape(reason)}</li>" for reason in value.rests_on)
    table = _table(("class of work", "time"), rows)
    return f"<p><b>{escape(words)}</b></p>{table}<p>rests on</p><ul>{rests}</ul>"


def _verdict(value: Verdict) -> str:
    predicted, measured = value.predicted.step_ns, value.measured.step_ns
    words = f"predicted {duration(predicted)}, measured {duration(measured)}"
    rows = [
        (row.name, duration(row.predicted_ns), duration(row.measured_ns), signed(row.error_ns))
        for row in value.differences
    ]
    table = _table(("class of work", "predicted", "measured", "difference"), rows)
    return f"<p><b>{words} ({100 * value.error:+.1f} %)</b></p>{table}"


def _difference(value: Difference) -> str:
    causes = [
        (cause_words(c), signed(c.share_ns), share(c.share_ns, value.change_ns))
        for c in value.causes[:_TOP]
    ]
    rows = [
        (row.name, duration(row.before_ns), duration(row.after_ns), signed(row.change_ns))
        for row in value.classes[:_TOP]
    ]
    basis = "".join(f"<p>{escape(line)}</p>" for line in basis_lines(value))
    return (
        f"<p><b>{escape(verdict_line(value))}</b></p>"
        f"{_table(('what changed most', 'time', 'of the change'), causes)}"
        f"{_table(('a step', 'before', 'after', 'change'), rows)}{basis}"
    )


def _plan(value: Plan) -> str:
    rows = [(str(strategy),) for strategy in value.strategies]
    made = value.made_for
    of = f" for {made.world_size} workers" if made else ""
    return f"<p><b>a plan{of}</b></p>{_table(('strategies, in this order',), rows)}"


_SHOWN: Final[dict[type, Callable[[Any], str]]] = {
    Timeline: _timeline,
    Prediction: _prediction,
    Verdict: _verdict,
    Difference: _difference,
    Plan: _plan,
}


def _bar(shares: Mapping[str, int], whole: int) -> str:
    parts = "".join(
        f'<span title="{_WORDS[state]} {duration(shares[state])}" style="display:inline-block;'
        f'height:14px;background:{colour};width:{100 * shares[state] / whole:.2f}%"></span>'
        for state, colour in _COLOURS.items()
        if shares.get(state)
    )
    return f'<div style="width:36em;white-space:nowrap;font-size:0">{parts}</div>'


def _legend() -> str:
    parts = "".join(
        f'<span style="margin-right:1em"><span style="display:inline-block;width:1em;height:1em;'
        f'background:{colour}"></span> {_WORDS[state]}</span>'
        for state, colour in _COLOURS.items()
    )
    return f"<p>{parts}</p>"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
