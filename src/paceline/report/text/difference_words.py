"""The difference of two runs in words; `difference.py`, `markdown` and JSON lay them out."""

from collections.abc import Callable, Iterator
from typing import Final

from paceline.compare import Cause, CauseKind, Difference, Verdict
from paceline.report.text.quantities import duration, size
from paceline.report.text.table import short

_FEW: Final = 3
_LONGEST: Final = 60


def verdict_line(found: Difference) -> str:
    """What to read first."""
    step = f"{duration(found.before_ns)} -> {duration(found.after_ns)}"
    if found.verdict is Verdict.SAME:
        return f"no difference beyond noise ({100 * found.noise:.1f} %): a step of {step}"
    change = f"{duration(abs(found.change_ns))} ({100 * found.change:+.1f} %)"
    if found.verdict is Verdict.UNTESTED:
        return f"{found.after} differs by {change}, {step}; too few steps to test it against noise"
    if found.verdict is Verdict.DISTURBED:
        return f"{found.after} differs by {change}, {step}; {_theirs(found)}"
    noise = f"beyond noise ({100 * found.noise:.1f} %)"
    if found.by_part:
        noise = f"less than steps spread ({100 * found.noise:.1f} %), but one part does not spread"
    return f"{found.after} is {found.verdict.value} by {change} a step, {step}, {noise}"


def _theirs(found: Difference) -> str:
    before, after = map(duration, found.others_ns or (0.0, 0.0))
    return (
        f"other programs ran {before} beside a step of {found.before} and {after} beside one of "
        f"{found.after}, which may be why: record again when they rest"
    )


def basis_lines(found: Difference) -> Iterator[str]:
    """What was compared, and how far it can be."""
    kind = "steps without instruments" if found.plain else "recorded steps"
    yield (
        f"compared: {found.steps[0]} and {found.steps[1]} {kind}; a step is like the one before it "
        f"by {found.correlation:.2f}"
    )
    if not found.same_model:
        yield (
            "these are different models: causes are named only for what both do "
            f"({100 * found.alike:.0f} % of the work)"
        )


def cause_words(cause: Cause) -> str:
    """One cause in words, without its time."""
    return _WORDS[cause.kind](cause)


def _names(names: tuple[str, ...]) -> str:
    more = len(names) - _FEW
    return ", ".join(short(name, _LONGEST) for name in names[:_FEW]) + (
        f" and {more} more" if more > 0 else ""
    )


def _layers(names: tuple[str, ...]) -> str:
    known = tuple(name for name in names if name)
    if not known:
        return "work in no layer"
    return f"layer{'s' * (len(known) > 1)} {_names(known)}"


def _rose(cause: Cause, more: str, less: str) -> str:
    return more if cause.share_ns >= 0 else less


def _exchanged(cause: Cause) -> str:
    gone = f"{_names(cause.gone)} gone" if cause.gone else ""
    come = f"{_names(cause.come)} new" if cause.come else ""
    return "; ".join(part for part in (gone, come) if part)


def _times(cause: Cause) -> str:
    return f"{cause.after / cause.before:.2f} times" if cause.before else "another"


def _batch(cause: Cause) -> str:
    word = "larger" if cause.after > cause.before else "smaller"
    return (
        f"a {word} batch: {_times(cause)} its bytes ({size(cause.before)} -> {size(cause.after)})"
    )


def _buckets(cause: Cause) -> str:
    word = "smaller" if cause.after > cause.before else "larger"
    return f"{word} buckets: {cause.before:.0f} -> {cause.after:.0f} messages a step, as many bytes"


def _link(cause: Cause) -> str:
    word = "a slower link" if cause.after < cause.before else "a faster link"
    return f"{word}: the same bytes moved at {size(cause.before)}/s, now at {size(cause.after)}/s"


def _volume(cause: Cause) -> str:
    word = "more" if cause.after > cause.before else "less"
    return f"{word} is sent: {size(cause.before)} -> {size(cause.after)} a step"


_WORDS: Final[dict[CauseKind, Callable[[Cause], str]]] = {
    CauseKind.MODEL: lambda c: "work that only one of the two models has",
    CauseKind.WORKERS: lambda c: f"communication of {c.before:.0f} -> {c.after:.0f} workers",
    CauseKind.BATCH: _batch,
    CauseKind.REPLACED: lambda c: f"operators replaced in {_layers(c.layers)}: {_exchanged(c)}",
    CauseKind.OPTIMIZER: lambda c: f"another update of the weights: {_exchanged(c)}",
    CauseKind.LAYER_ON_RANK: lambda c: f"{_layers(c.layers)} on rank {c.rank} alone",
    CauseKind.RANK: lambda c: f"rank {c.rank} alone, in {_layers(c.layers)}",
    CauseKind.LAYER: lambda c: f"{_layers(c.layers)} on all ranks",
    CauseKind.WORK: lambda c: (
        f"all work {_rose(c, 'slower', 'faster')}, most in {_layers(c.layers)}"
    ),
    CauseKind.HOST: lambda c: (
        f"host calls and Python between operators take {_rose(c, 'longer', 'less')}"
    ),
    CauseKind.INPUT: lambda c: (
        f"input: the training loop waits {_rose(c, 'longer', 'less')} for data"
    ),
    CauseKind.BUCKETS: _buckets,
    CauseKind.VOLUME: _volume,
    CauseKind.LINK: _link,
    CauseKind.EXPOSED: lambda c: (
        f"communication as long as before is hidden {_rose(c, 'less', 'more')} by work"
    ),
    CauseKind.CORE: lambda c: (
        f"busy cores: threads were ready and waited {_rose(c, 'longer', 'less')} for a core"
    ),
    CauseKind.WAITING: lambda c: f"threads wait {_rose(c, 'longer', 'less')} for other threads",
    CauseKind.REST: lambda c: "smaller differences, each within the steps' own spread",
    CauseKind.UNSEEN: lambda c: "not seen in the recorded steps",
}
