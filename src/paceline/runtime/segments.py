"""Which modules' forward passes are run again together: by path, and several of a Sequential in
one. Both halves of `checkpoint` ask here, so that they mean the same."""

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from paceline.errors import PacelineError

Segments = tuple[tuple[str, ...], ...]
"""Paths of modules; those of one segment follow one another in a Sequential."""

HOLDERS = frozenset({"ModuleList", "ModuleDict"})
"""Classes of modules that never run by themselves."""


class SegmentError(PacelineError):
    """The chosen layers cannot be run again."""


def segments_of(modules: Mapping[str, str], layers: str, every: int) -> Segments:
    """Segments of `every` chosen layers each; `modules` are classes by path, in order."""
    chosen = _outermost([name for name in modules if _is_chosen(name, modules, layers)])
    if not chosen:
        what = f"no layer is called {layers!r}" if layers else "the model has no numbered blocks"
        paths = [name for name in modules if name]
        shown = ", ".join(paths[:12]) + (", ..." if len(paths) > 12 else "")
        raise SegmentError(
            f"{what}; name layers by their paths, as in checkpoint(layers='encoder.*'). "
            f"There are {shown or 'none'}"
        )
    if every == 1:
        return tuple((name,) for name in chosen)
    parents = list(dict.fromkeys(parent_of(name) for name in chosen))
    for parent in parents:
        kind = modules.get(parent, "ModuleList")
        if kind != "Sequential":
            raise SegmentError(
                f"{every} layers are run again together only where they follow one another in a "
                f"Sequential, and {parent or 'the model'} is a {kind}; take every=1"
            )
    return tuple(
        run
        for parent in parents
        for run in _runs(_children(modules, parent), frozenset(chosen), every)
    )


def parent_of(name: str) -> str:
    return name.rpartition(".")[0]


def _is_chosen(name: str, modules: Mapping[str, str], layers: str) -> bool:
    if not name or modules[name] in HOLDERS:
        return False
    if layers:
        return any(fnmatchcase(name, pattern) for pattern in layers.split("|"))
    numbered = name.rpartition(".")[2].isdigit()
    return numbered and any(other.startswith(f"{name}.") for other in modules)


def _outermost(names: Sequence[str]) -> list[str]:
    known = frozenset(names)
    return [name for name in names if known.isdisjoint(_holding(name))]


def _holding(name: str) -> Iterator[str]:
    """The paths of all modules that one lies in, but for the model."""
    while name := parent_of(name):
        yield name


def _children(modules: Mapping[str, str], parent: str) -> list[str]:
    return [name for name in modules if name and parent_of(name) == parent]


def _runs(children: Sequence[str], chosen: frozenset[str], every: int) -> list[tuple[str, ...]]:
    """Chosen children that follow one another, cut into runs of at most `every`."""
    found: list[tuple[str, ...]] = []
    open_run: list[str] = []
    for name in (*children, ""):
        if open_run and (name not in chosen or len(open_run) == every):
            found.append(tuple(open_run))
            open_run = []
        if name in chosen:
            open_run.append(name)
    return found
