"""The user's own plan, as text: `tp=4,pp=8,mbs=2,vp=3,recompute=full`; the data degree follows.

`recompute=full:3` is for the first three layers of each chunk alone.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from paceline.graph.schedules import Schedule
from paceline.imagine.decoder import DecoderJob, Sharding
from paceline.imagine.transformer import Degrees, Recompute
from paceline.place.hybrid.question import PlanQuestion
from paceline.place.operators.problem import PlacementError

_DEGREES: Final = {"dp": "data", "tp": "tensor", "pp": "pipeline", "cp": "sequence",
                   "ep": "expert"}  # fmt: skip
_COUNTS: Final = {"mbs": "micro_batch", "vp": "chunks"}
_WORDS: Final[Mapping[str, type[Enum]]] = {
    "sharding": Sharding,
    "schedule": Schedule,
}
_ZERO: Final = {"0": Sharding.NONE, "1": Sharding.OPTIMIZER, "2": Sharding.GRADIENTS,
                "3": Sharding.FULL}  # fmt: skip


def own_plan(question: PlanQuestion, text: str) -> DecoderJob:
    """The job that a text names; an error says which part cannot be."""
    degrees: dict[str, int] = {}
    settings: dict[str, Any] = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        name, _, value = part.partition("=")
        if name in _DEGREES:
            degrees[_DEGREES[name]] = _count(name, value)
        elif name in _COUNTS:
            settings[_COUNTS[name]] = _count(name, value)
        elif name == "zero":
            settings["sharding"] = _choice("zero", value, _ZERO)
        elif name == "recompute":
            value, _, layers = value.partition(":")
            settings[name] = _choice(name, value, _by_value(Recompute))
            settings["recomputed"] = _count(name, layers) if layers else 0
        elif name in _WORDS:
            settings[name] = _choice(name, value, _by_value(_WORDS[name]))
        else:
            known = [*_DEGREES, *_COUNTS, "zero", "recompute", *_WORDS]
            raise PlacementError(f"a plan has no {name!r}; it has {', '.join(known)}")
    if settings.get("chunks", 1) > 1:
        settings.setdefault("schedule", Schedule.INTERLEAVED)
    return question.job(_whole(question, degrees), **settings)


def _whole(question: PlanQuestion, given: Mapping[str, int]) -> Degrees:
    """The degrees with the data degree that fills the site."""
    shared = Degrees(**{**given, "data": 1}).world
    ranks = question.site.ranks
    data, rest = divmod(ranks, shared)
    if rest or given.get("data", data) != data:
        asked = shared * given.get("data", 1)
        more = "" if "data" in given else " or a multiple"
        raise PlacementError(
            f"these degrees need {asked} devices{more}; the cluster has {ranks}. Change a degree, "
            "or leave out dp, which then fills the cluster"
        )
    return Degrees(**{**given, "data": data})


def _count(name: str, text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise PlacementError(f"{name}={text!r}; give a whole number from 1 on")
    return int(text)


def _by_value(words: type[Enum]) -> Mapping[str, Enum]:
    return {one.value: one for one in words}


def _choice(name: str, text: str, known: Mapping[str, Any]) -> Any:
    if text not in known:
        raise PlacementError(f"{name}={text!r}; known: {', '.join(known)}")
    return known[text]
