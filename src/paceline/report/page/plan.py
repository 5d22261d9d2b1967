"""The page of a plan without a run: all that the plan holds, in words and rows of texts."""

from collections.abc import Iterator

from paceline import __version__
from paceline.report.page.contents import PlanAlone, PlanPart
from paceline.report.text.quantities import duration, size
from paceline.strategies import MadeFor, Plan, Predicted, Strategy, in_a_sentence
from paceline.strategies.sends import Sends


def plan_alone(plan: Plan) -> PlanAlone:
    """What a notebook shows of a plan, which names no run."""
    parts = tuple(_part(each, plan.reasons) for each in plan.strategies)
    return PlanAlone(
        title="plan",
        version=__version__,
        step=duration(plan.predicted.step_ns) if plan.predicted else "",
        headline=tuple(_headline(plan)),
        parts=parts,
        reasons=tuple(text for text in plan.reasons if not _reason_of(plan.strategies, text)),
        predicted=(*_predicted(plan.predicted), *_sends(plan.sends)),
        made_for=tuple(_made_for(plan.made_for)),
        missing=_missing(plan),
    )


def _part(strategy: Strategy, reasons: tuple[str, ...]) -> PlanPart:
    head = _head(strategy)
    why = next((text.removeprefix(head) for text in reasons if text.startswith(head)), "")
    return PlanPart(str(strategy), in_a_sentence(type(strategy)), why)


def _reason_of(strategies: tuple[Strategy, ...], text: str) -> bool:
    return any(text.startswith(_head(each)) for each in strategies)


def _head(strategy: Strategy) -> str:
    """With which a search begins the reason of a part."""
    return f"{strategy}: "


def _headline(plan: Plan) -> Iterator[str]:
    parts, told = len(plan.strategies), plan.predicted
    if parts:
        yield "1 strategy." if parts == 1 else f"{parts} strategies, made in this order."
    else:
        yield "No strategy: the job stays as it is."
    if told is None:
        return
    between = f"{duration(told.low_ns)} to {duration(told.high_ns)}"
    yield f"With its typical error a step takes {between}."
    if told.unchanged_ns:
        percent = 100 * (told.batch_ns / told.unchanged_ns - 1)
        yield (
            f"For a recorded batch it takes the job from {duration(told.unchanged_ns)} to "
            f"{duration(told.batch_ns)} ({percent:+.1f} %)."
        )


def _predicted(told: Predicted | None) -> Iterator[tuple[str, str]]:
    if told is None:
        return
    yield "a step", duration(told.step_ns)
    yield "with its typical error", f"{duration(told.low_ns)} to {duration(told.high_ns)}"
    yield "for a recorded batch", duration(told.batch_ns)
    if told.unchanged_ns is not None:
        yield "the same without the plan", duration(told.unchanged_ns)
    if told.memory_bytes is not None:
        yield "memory at the fullest rank's peak", size(told.memory_bytes)


def _sends(told: Sends | None) -> Iterator[tuple[str, str]]:
    """What a mean rank hands over for its gradients in a step."""
    if told is None:
        return
    yield "exchanges of gradients in a rank's step", f"{told.calls:,.4g}"
    yield "bytes handed to them", size(told.payload_bytes)
    yield "bytes sent for them", size(told.wire_bytes)


def _made_for(made: MadeFor | None) -> Iterator[tuple[str, str]]:
    """What its choice rests on; what is not known is left out."""
    if made is None:
        return
    yield "workers", f"{made.world_size:,}"
    if made.batch_bytes:
        yield "a rank's batch", size(made.batch_bytes)
    fingerprints = (
        ("fingerprint of the model", made.model),
        ("fingerprint of the cluster", made.cluster or "none: links as recorded"),
        ("torch", made.torch),
        ("Paceline", made.version),
    )
    yield from ((name, text) for name, text in fingerprints if text)


def _missing(plan: Plan) -> dict[str, str]:
    """What the plan does not hold, and what to do about it."""
    found = {"run": _NO_RUN}
    if plan.predicted is None:
        found["predicted"] = _NOT_PREDICTED
    if plan.made_for is None:
        found["made_for"] = _FOR_ANY
    return found


_NO_RUN = (
    "A plan holds no run. To see it beside a timeline: paceline report RUN --plan FILE -o "
    "report.html. To run a job under it: paceline apply FILE -- COMMAND"
)
_NOT_PREDICTED = (
    "Nobody predicted what it brings: paceline search RUN -o FILE does, and so does "
    "paceline report RUN --plan FILE"
)
_FOR_ANY = "It was made for no job in particular, and is not refused for any."
