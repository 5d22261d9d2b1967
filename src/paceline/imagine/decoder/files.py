"""Models as data files: those that come with Paceline by name, and a user's own.

name: my-model
layers: 32
hidden: 4096
attention: {kind: grouped, heads: 32, kv_heads: 8, head_dim: 128}
feed_forward: {kind: gated, width: 14336}
vocab: 128256

`attention.kind` is grouped or latent; `feed_forward.kind` is gated or plain, and `experts` beside
it makes all but the first `dense_layers` layers a mixture. `further` counts layers of multi-token
prediction.
"""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import yaml

from paceline.errors import GraphError
from paceline.imagine.decoder.model import Decoder, Experts, GroupedQuery, Latent

_MODEL: Final = ("name", "layers", "hidden", "attention", "feed_forward", "experts", "vocab",
                 "tied", "positions", "further", "sequence", "source")  # fmt: skip
_ATTENTION: Final[Mapping[str, tuple[str, ...]]] = {
    "grouped": ("heads", "kv_heads", "head_dim", "window", "full_every"),
    "latent": ("heads", "query_rank", "key_value_rank", "nope", "rope", "value"),
}
_OPTIONAL: Final = frozenset({"kv_heads", "head_dim", "window", "full_every", "shared",
                              "dense_layers", "load", "most_hosts"})  # fmt: skip
_FEED_FORWARD: Final = ("gated", "plain")


@cache
def shipped() -> Mapping[str, Decoder]:
    """The models that come with Paceline, by name."""
    folder = files("paceline.imagine.decoder") / "models"
    found: dict[str, Decoder] = {}
    for path in sorted(folder.iterdir(), key=lambda one: one.name):
        for name, given in yaml.safe_load(path.read_text()).items():
            found[name] = from_document({"name": name, **given})
    return found


def decoder(text: str | Path) -> Decoder:
    """A model by its name, or from a file."""
    path = Path(text)
    if path.suffix in (".yaml", ".yml", ".json"):
        return _read(path)
    if str(text) not in shipped():
        raise GraphError(
            f"no model is called {str(text)!r}; known: {', '.join(shipped())}. Or give a YAML file "
            "that describes it (docs/how/plan.md)"
        )
    return shipped()[str(text)]


def from_document(given: Any) -> Decoder:
    """A model from plain dicts, as YAML gives them."""
    fields = _known(given, _MODEL, "a model")
    for name in ("layers", "hidden", "attention", "feed_forward", "vocab"):
        if name not in fields:
            raise GraphError(f"a model lacks `{name}`; it needs layers, hidden, attention, "
                             "feed_forward and vocab")  # fmt: skip
    name, forward = str(fields.get("name", "model")), fields["feed_forward"]
    kind = _kind(forward, _FEED_FORWARD, "feed_forward")
    width = _known(forward, ("kind", "width"), "feed_forward").get("width", 0)
    experts = fields.get("experts")
    return Decoder(
        name=name,
        layers=_count(fields["layers"], "layers"),
        hidden=_count(fields["hidden"], "hidden"),
        vocab=_count(fields["vocab"], "vocab"),
        attention=_attention(fields["attention"], fields["hidden"]),
        ffn=_count(width, "feed_forward.width", least=0 if experts else 1),
        gated=kind == "gated",
        experts=None if experts is None else _experts(experts),
        tied=bool(fields.get("tied", False)),
        positions=_count(fields.get("positions", 0), "positions", least=0),
        further=_count(fields.get("further", 0), "further", least=0),
        sequence=_count(fields.get("sequence", 4096), "sequence"),
        source=str(fields.get("source", "")),
    )


def _attention(given: Any, hidden: int) -> GroupedQuery | Latent:
    kind = _kind(given, tuple(_ATTENTION), "attention")
    allowed = _ATTENTION[kind]
    fields = {
        name: _count(value, f"attention.{name}", least=0)
        for name, value in _known(given, ("kind", *allowed), "attention").items()
        if name != "kind"
    }
    _require(fields, allowed, f"{kind} attention")
    if kind == "latent":
        return Latent(**fields)
    heads = fields["heads"]
    return GroupedQuery(**{"kv_heads": heads, "head_dim": hidden // heads, **fields})


def _experts(given: Any) -> Experts:
    allowed = ("count", "top_k", "ffn", "shared", "dense_layers", "load", "most_hosts")
    fields = dict(_known(given, allowed, "experts"))
    _require(fields, allowed, "experts")
    made = Experts(**fields)
    if made.top_k > made.count:
        raise GraphError(f"top_k={made.top_k} of {made.count} experts: give at most as many")
    if made.load < 1:
        raise GraphError(f"experts.load is {made.load}; the fullest rank has at least the mean, 1")
    return made


def _read(path: Path) -> Decoder:
    try:
        document = yaml.safe_load(path.read_text())  # JSON is YAML too
    except OSError as error:
        raise GraphError(f"cannot read model file {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise GraphError(f"model file {path} is not YAML: {error}") from error
    return from_document(document)


def _kind(given: Any, allowed: tuple[str, ...], what: str) -> str:
    kind = given.get("kind") if isinstance(given, Mapping) else None
    if kind not in allowed:
        raise GraphError(f"{what}.kind is {kind!r}; known kinds: {', '.join(allowed)}")
    return str(kind)


def _known(given: Any, allowed: tuple[str, ...], what: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise GraphError(f"{what} is {given!r}; give a mapping with {', '.join(allowed)}")
    strange = [name for name in given if name not in allowed]
    if strange:
        raise GraphError(f"{what} has {strange[0]!r}; allowed: {', '.join(allowed)}")
    return given


def _require(fields: Mapping[str, Any], allowed: tuple[str, ...], what: str) -> None:
    lacking = [name for name in allowed if name not in fields and name not in _OPTIONAL]
    if lacking:
        raise GraphError(f"{what} lacks {', '.join(lacking)}")


def _count(value: Any, what: str, least: int = 1) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise GraphError(f"{what} is {value!r}; give a whole number from {least} on")
    return value
